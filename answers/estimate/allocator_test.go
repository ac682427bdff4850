package estimate_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/estimate"
	"memopt/configs"
	"memopt/sim/allocator"
	torchsim "memopt/sim/torch"
)

// TestServed: the blocks of a step are, at their worst, the parts that its plan counts, to the byte; an allocator takes
// at least as many of the device, and the total is that with the reserve.
func TestServed(t *testing.T) {
	device, err := configs.LoadDevice("t4")
	require.NoError(t, err)
	for _, c := range []struct {
		model  string
		dims   map[string]int64
		micros int
	}{
		{"mlp", map[string]int64{"batch": 512}, 1},
		{"transformer-small", map[string]int64{"batch": 2, "seq": 64}, 1},
		{"cnn", nil, 1},
	} {
		m, err := memopt.Example(c.model, memopt.Options{Dims: c.dims})
		require.NoError(t, err)
		plain, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: adamw(), Device: device})
		require.NoError(t, err)
		asked := plain.Plain.Total() - plain.Plain.Parts.Reserve - plain.Plain.Parts.Gaps
		for _, name := range estimate.Allocators {
			r, err := estimate.Make(t.Context(), m, estimate.Options{Recipe: adamw(), Device: device, Allocator: name})
			require.NoError(t, err)
			s := r.Plain.Served
			require.Equal(t, asked, s.Peak.Asked, "%s %s", c.model, name)
			require.GreaterOrEqual(t, s.Peak.Allocated, s.Peak.Asked)
			require.GreaterOrEqual(t, s.Peak.Reserved, s.Peak.Allocated)
			require.Equal(t, device.Reserve+s.Peak.Reserved, r.Plain.Total(), "%s %s", c.model, name)
			require.Empty(t, s.Error)
			fits, known := r.Fits()
			require.True(t, fits && known)
			if name == estimate.InArena {
				require.Equal(t, plain.Plain.Total(), r.Plain.Total(), "memopt's own arena, named or not")
			} else {
				require.Equal(t, asked, r.Plain.Total()-r.Plain.Parts.Reserve, "no gaps of an arena")
			}
		}
	}
}

// TestRunsOut: a device with as much memory as the allocator takes serves the step. One with a little less than its
// blocks need does not: the step does not fit, and the error names the device's memory in PyTorch's words.
func TestRunsOut(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 2, "seq": 64}})
	require.NoError(t, err)
	reserve := int64(100 << 20)
	o := estimate.Options{Recipe: adamw(), Reserve: &reserve, Allocator: estimate.Caching, Effort: .01}
	r, err := estimate.Make(t.Context(), m, o)
	require.NoError(t, err)
	_, known := r.Fits()
	require.False(t, known)
	s := r.Plain.Served
	o.Memory = r.Plain.Total()
	r, err = estimate.Make(t.Context(), m, o)
	require.NoError(t, err)
	fits, _ := r.Fits()
	require.True(t, fits)

	o.Memory = reserve + s.Peak.Allocated - 1
	r, err = estimate.Make(t.Context(), m, o)
	require.NoError(t, err)
	fits, known = r.Fits()
	require.True(t, known && !fits)
	require.Regexp(t, `^CUDA out of memory\. Tried to allocate [0-9.]+ MiB\. GPU 0 has a total capacity of [0-9.]+ [GM]iB`+
		` of which [0-9.]+ (bytes|[MK]iB) is free\. Including non-PyTorch memory, this process has [0-9.]+ [GM]iB memory `+
		`in use\. Of the allocated memory [0-9.]+ MiB is allocated by PyTorch, and [0-9.]+ [MK]iB is reserved by PyTorch `+
		`but unallocated\. If reserved but unallocated memory is large try setting `+
		`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation\.  See documentation for Memory `+
		`Management  \(https://docs\.pytorch\.org/`, r.Plain.Served.Error)
	if r.Planned != nil {
		require.Empty(t, r.Planned.Served.Error)
		require.LessOrEqual(t, r.Planned.Total(), o.Memory)
	}
}

// TestServedTorch: a step of PyTorch on a GPU is served by PyTorch's allocator without being asked to be; its blocks
// are the parts of the estimate, at the worst of both moments.
func TestServedTorch(t *testing.T) {
	f, err := os.Open("../../cmd/memopt/testdata/pytorch/steps/gpt2-sdpa-tiny.step.json")
	require.NoError(t, err)
	defer f.Close()
	step, err := torchsim.ReadStep(f)
	require.NoError(t, err)
	device, err := configs.LoadDevice("t4")
	require.NoError(t, err)
	for _, kind := range []string{"", "sgd", "adam", "adamw", "lion"} {
		for _, micros := range []int{1, 2} {
			recipe := adamw()
			recipe.Optimizer.Kind, recipe.Micros = kind, micros
			o := estimate.Options{Recipe: recipe, Device: device}
			r, err := estimate.MakeTraced(t.Context(), step, "step.json", "", o)
			require.NoError(t, err)
			s := r.Plain.Served
			require.Equal(t, estimate.Caching, s.Allocator)
			p := &r.Plain.Parts
			require.Equal(t, r.Plain.Total()-p.Reserve, s.Peak.Asked, "%s %d", kind, micros)
			require.Equal(t, device.Reserve+s.Peak.Reserved, r.Plain.Total())
			o.Allocator = estimate.InArena
			packed, err := estimate.MakeTraced(t.Context(), step, "step.json", "", o)
			require.NoError(t, err)
			require.Equal(t, s.Peak.Asked, packed.Plain.Served.Peak.Asked)
			none := int64(0)
			o = estimate.Options{Recipe: recipe, Device: device, Reserve: &none}
			r, err = estimate.MakeTraced(t.Context(), step, "step.json", "", o)
			require.NoError(t, err)
			require.Nil(t, r.Plain.Served, "without a reserve there is no driver")
		}
	}
}

// TestServedConf: options change how a step is served: expandable segments take fewer bytes where blocks leave gaps.
func TestServedConf(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 4, "seq": 128}})
	require.NoError(t, err)
	reserved := map[string]int64{}
	for _, text := range []string{"", "expandable_segments:True", "large_segment_size_mb:12"} {
		conf, err := allocator.ParseConf(text)
		require.NoError(t, err)
		o := estimate.Options{Recipe: adamw(), Allocator: estimate.Caching, Conf: conf}
		r, err := estimate.Make(t.Context(), m, o)
		require.NoError(t, err)
		reserved[text] = r.Plain.Served.Peak.Reserved
		if e := r.Plain.Served.Expandable; text == "" {
			reserved["alone"] = e.Peak.Reserved
		}
	}
	require.Less(t, reserved["expandable_segments:True"], reserved[""])
	require.Equal(t, reserved["expandable_segments:True"], reserved["alone"])
	require.NotEqual(t, reserved[""], reserved["large_segment_size_mb:12"])
}
