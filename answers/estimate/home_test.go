package estimate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/answers/estimate"
	"memopt/autograd"
	"memopt/configs"
	"memopt/graph/precision"
	"memopt/internal/test/graphtest"
	"memopt/planner/device"
	"memopt/train"
)

// onCPU is the profile of the CPU.
func onCPU(t require.TestingT) *device.Profile {
	p, err := configs.LoadDevice("cpu")
	require.NoError(t, err)
	return p
}

// TestHome: of a step whose states have a home, the estimate is equal to the bytes of a job of train: the file, and the
// arena of the CPU; on the device are the arena, the inputs and constants alone.
func TestHome(t *testing.T) {
	list := graphtest.Tiny.Files(t)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(list).Draw(t, "model")
		m, err := memopt.Open(s.File, memopt.Options{Dims: map[string]int64{
			"batch": rapid.Int64Range(1, 5).Draw(t, "batch"), "seq": rapid.Int64Range(2, 16).Draw(t, "seq")}})
		require.NoError(t, err)
		defer m.Close()
		none := int64(0)
		o := estimate.Options{Recipe: adamw(), Device: onCPU(t), Reserve: &none}
		o.Recipe.Home, o.Recipe.Micros = true, rapid.IntRange(1, 3).Draw(t, "micros")
		o.Recipe.Optimizer.Kind = rapid.SampledFrom(autograd.OptimizerKinds).Draw(t, "optimizer")
		o.Recipe.Optimizer.MaxNorm = rapid.SampledFrom([]float64{0, 1}).Draw(t, "norm")
		o.Precision = rapid.SampledFrom([]precision.Precision{precision.AsIs, precision.BF16,
			precision.BF16Pure}).Draw(t, "precision")
		r, err := estimate.Make(t.Context(), m, o)
		require.NoError(t, err)
		recipe := o.Recipe
		recipe.Differentiate.Precision = o.Precision
		steps, err := train.Make(m, recipe)
		if err != nil {
			return // of a model that makes no loss
		}
		sel := train.Selection{}
		sel.Options.Profile = onCPU(t)
		plans, err := steps.Plan(t.Context(), max(m.Dims[steps.Batch], steps.Rows), 0, sel)
		require.NoError(t, err)
		require.Equal(t, plans.Home, r.Home.Bytes())
		arena := int64(0)
		for _, p := range r.Plain.Plans {
			arena = max(arena, p.Arena.Bytes)
		}
		require.Equal(t, plans.Arena(), arena)
		require.InDelta(t, plans.Total(), r.Plain.Total(), 4096) // numbers that the loop gives to each step
		require.Zero(t, r.Plain.Parts.State)
	})
}

// TestHomeBudget: a home that takes more than it may is refused without a look for plans; values that
// move may have the rest.
func TestHomeBudget(t *testing.T) {
	m := open(t, "gpt2_6l_256", map[string]int64{"batch": 2, "seq": 32})
	o := estimate.Options{Recipe: adamw(), Device: onCPU(t), Memory: 1 << 40}
	o.Recipe.Home = true
	r, err := estimate.Make(t.Context(), m, o)
	require.NoError(t, err)
	fits, known := r.Fits()
	require.True(t, fits && known)
	for off, want := range map[int64]bool{0: true, -1: false} {
		o.HostBudget, o.Memory = r.Home.Bytes()+off, 0
		again, err := estimate.Make(t.Context(), m, o)
		require.NoError(t, err)
		fits, known := again.Fits()
		require.Equal(t, !want, known)
		require.False(t, fits, "the memory is not known")
		require.Equal(t, !want, again.Home.Over())
		require.Equal(t, !want, strings.HasPrefix(again.Answer(), "No: the home of the states takes "), again.Answer())
	}
}

// TestAdviceHome: a home is advised where the device may be the CPU, within the host's budget, and the step takes the
// bytes that the advice names; without the bound of the norm it is named where gradients that wait for it are too many.
func TestAdviceHome(t *testing.T) {
	m := open(t, "gpt2_6l_256", map[string]int64{"batch": 1, "seq": 16})
	none := int64(0)
	base := estimate.Options{Recipe: adamw(), Reserve: &none, HomeOn: onCPU(t), Advise: true}
	plain, err := estimate.Make(t.Context(), m, base)
	require.NoError(t, err)
	seen := 0
	for percent, norm := range map[int64]bool{12: true, 30: false} {
		base.Memory, base.HostBudget = plain.Plain.Total()*percent/100, 0
		r, err := estimate.Make(t.Context(), m, base)
		require.NoError(t, err)
		all := ""
		for _, a := range r.Advice {
			rest, ok := strings.CutPrefix(a.What, "Device cpu Home DIR HostBudget ")
			all += a.What + "\n"
			if !ok {
				continue
			}
			var size int64
			_, err := fmt.Sscanf(rest, "%dMiB", &size)
			require.NoError(t, err)
			o := base
			o.Advise, o.Device, o.HostBudget, o.Recipe.Home = false, onCPU(t), size<<20, true
			if strings.HasSuffix(rest, " MaxNorm 0") {
				o.Recipe.Optimizer.MaxNorm = 0
			}
			again, err := estimate.Make(t.Context(), m, o)
			require.NoError(t, err)
			require.NotNil(t, again.Planned, a.What)
			require.InDelta(t, again.Planned.Total(), a.Total, 1<<12)
			require.LessOrEqual(t, again.Home.Bytes(), size<<20)
			require.Contains(t, a.Price, "an update reads ")
			seen++
		}
		require.Equal(t, norm, strings.Contains(all, "MiB MaxNorm 0"), all)
		// A host without room has no home.
		base.HostBudget = 1 << 20
		r, err = estimate.Make(t.Context(), m, base)
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(r.Advice, func(a estimate.Advice) bool {
			return strings.Contains(a.What, "Home")
		}))
	}
	require.GreaterOrEqual(t, seen, 2)
}
