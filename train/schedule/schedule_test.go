package schedule

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// TestRates compares with PyTorch's LambdaLR under transformers' formulas (testdata/rates.py).
func TestRates(t *testing.T) {
	data, err := os.ReadFile("testdata/rates.json")
	require.NoError(t, err)
	var cases []struct {
		Kind          string
		LR            float64
		MinLR         float64 `json:"min_lr"`
		Warmup, Total int64
		Rates         []float64
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	kinds := map[string]bool{}
	for _, c := range cases {
		s := Schedule{c.Kind, c.LR, c.MinLR, c.Warmup, c.Total}
		require.NoError(t, s.Check(), "%+v", s)
		require.Len(t, c.Rates, int(c.Total))
		for u, want := range c.Rates {
			require.InDelta(t, want, s.At(int64(u)), 1e-14*c.LR, "%+v, update %d", s, u)
		}
		kinds[c.Kind] = true
	}
	require.Len(t, kinds, len(Kinds))
}

func TestFirstUpdateOfWarmupHasNoRate(t *testing.T) {
	s := Schedule{Kind: Linear, LR: 1, Warmup: 10, Total: 100}
	require.Zero(t, s.At(0))
	require.Equal(t, 0.1, s.At(1))
	require.Equal(t, 1.0, s.At(10))
}

// TestShape: rates rise to LR, then fall to the minimum, or stay, and never leave their bounds.
func TestShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Kind:  rapid.SampledFrom(Kinds).Draw(t, "kind"),
			LR:    rapid.Float64Range(0, 10).Draw(t, "lr"),
			Total: rapid.Int64Range(1, 1<<40).Draw(t, "total"),
		}
		if s.Kind != Constant {
			s.Warmup = rapid.Int64Range(0, s.Total).Draw(t, "warmup")
		}
		if s.decays() {
			s.MinLR = s.LR * rapid.Float64Range(0, 1).Draw(t, "min")
		}
		require.NoError(t, s.Check())
		a := rapid.Int64Range(0, s.Total+10).Draw(t, "a")
		b := rapid.Int64Range(a, s.Total+10).Draw(t, "b")
		ra, rb := s.At(a), s.At(b)
		require.LessOrEqual(t, max(ra, rb), s.LR*(1+1e-15))
		switch {
		case b < s.Warmup:
			require.LessOrEqual(t, ra, rb)
		case a >= s.Warmup:
			require.GreaterOrEqual(t, ra, rb)
			require.GreaterOrEqual(t, rb, s.MinLR)
		}
		if s.decays() {
			require.Equal(t, s.MinLR, s.At(s.Total+s.Warmup+1))
		}
	})
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		s    Schedule
		want string
	}{
		{Schedule{Kind: "polynomial"}, `schedule "polynomial": wanted one of linear, cosine, constant, ` +
			`constant_with_warmup`},
		{Schedule{Kind: Linear, LR: math.NaN(), Total: 1},
			"the learning rate is NaN; it must be a number and at least 0"},
		{Schedule{Kind: Linear, LR: -1, Total: 1}, "the learning rate is -1;"},
		{Schedule{Kind: Linear, LR: math.Inf(1), Total: 1}, "the learning rate is +Inf;"},
		{Schedule{Kind: Cosine, LR: 1, MinLR: 2, Total: 1}, "the minimum rate is 2; it must lie between 0 and the " +
			"learning rate, 1"},
		{Schedule{Kind: Constant, LR: 1, MinLR: 0.1}, "has no minimum rate, got 0.1"},
		{Schedule{Kind: Constant, LR: 1, Warmup: 3}, "has no warm-up, got 3 updates; take constant_with_warmup"},
		{Schedule{Kind: Linear, LR: 1, Warmup: -3, Total: 1}, "has -3 updates of warm-up"},
		{Schedule{Kind: Linear, LR: 1}, "has 0 updates in all"},
	} {
		require.ErrorContains(t, c.s.Check(), c.want)
	}
	require.NoError(t, Schedule{Kind: Constant, LR: 1}.Check())
	require.NoError(t, Schedule{Kind: ConstantWithWarmup, LR: 1, Warmup: 5}.Check())
}
