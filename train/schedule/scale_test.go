package schedule

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ampUpdateScale is PyTorch's kernel of the same name (aten/src/ATen/native/cuda/AmpKernels.cu,
// amp_update_scale_cuda_kernel), in float32 as there. It has no form for the CPU to compare with.
func ampUpdateScale(scale *float32, tracker *int, finite bool, growth, backoff float32, interval int) {
	if !finite {
		*scale *= backoff
		*tracker = 0
		return
	}
	if successful := *tracker + 1; successful == interval {
		if grown := *scale * growth; !math.IsInf(float64(grown), 0) {
			*scale = grown
		}
		*tracker = 0
	} else {
		*tracker = successful
	}
}

// TestScale goes through GradScaler's defaults by hand.
func TestScale(t *testing.T) {
	s := NewScale()
	require.Equal(t, 65536.0, s.Value)
	for range 1999 {
		s.Update(true)
	}
	require.Equal(t, 65536.0, s.Value)
	s.Update(true)
	require.Equal(t, 131072.0, s.Value, "after 2,000 good updates")
	for range 1999 {
		s.Update(true)
	}
	s.Update(false)
	require.Equal(t, 65536.0, s.Value, "after an overflow")
	for range 1999 {
		s.Update(true)
	}
	require.Equal(t, 65536.0, s.Value, "an overflow begins the count anew")
	s.Update(true)
	require.Equal(t, 131072.0, s.Value)
	for range 100 {
		s.Update(false)
	}
	require.Equal(t, 1.0, s.Value, "never below 1")
}

func TestScaleIsGradScalers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScale()
		s.Interval = rapid.Int64Range(1, 5).Draw(t, "interval")
		scale, tracker := float32(s.Value), 0
		for range rapid.IntRange(0, 800).Draw(t, "updates") {
			finite := rapid.IntRange(0, 19).Draw(t, "draw") != 0
			if scale < 2 && !finite {
				continue // GradScaler goes below 1
			}
			s.Update(finite)
			ampUpdateScale(&scale, &tracker, finite, 2, 0.5, int(s.Interval))
			require.Equal(t, float64(scale), s.Value)
			require.Equal(t, int64(tracker), s.Good)
			require.NoError(t, s.Check())
		}
	})
}

func TestScaleStaysFinite(t *testing.T) {
	s := NewScale()
	s.Interval = 1
	for range 1000 {
		s.Update(true)
	}
	require.Equal(t, math.Ldexp(1, 127), s.Value)
}

func TestScaleCheck(t *testing.T) {
	for _, c := range []struct {
		edit func(*Scale)
		want string
	}{
		{func(s *Scale) { s.Value = 0.5 }, "loss scale 0.5: wanted a number from 1"},
		{func(s *Scale) { s.Value = math.NaN() }, "loss scale NaN"},
		{func(s *Scale) { s.Value = math.Inf(1) }, "loss scale +Inf"},
		{func(s *Scale) { s.Good = -1 }, "had -1 good updates in a row; wanted 0 to 1999"},
		{func(s *Scale) { s.Good = 2000 }, "had 2000 good updates"},
		{func(s *Scale) { s.Interval = 0 }, "grows after 0 good updates"},
		{func(s *Scale) { s.Growth = 0.5 }, "grows by the factor 0.5"},
		{func(s *Scale) { s.Backoff = 0 }, "falls by the factor 0"},
	} {
		s := NewScale()
		c.edit(&s)
		require.ErrorContains(t, s.Check(), c.want)
	}
}
