package torch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	torchsim "memopt/sim/torch"
)

// step is a traced step of two modules: a makes storage 1 of the input and b makes 2 of that, both saved, then the loss
// 3. The backward half makes the gradients 4 and 5 and the parameter's gradient 6.
const step = `{"format": "memopt-step", "version": 1, "torch": "2.15.0", "device": "cpu", "model": "Net",
"parameter_bytes": 8, "modules": [{"name": "a", "calls": 1, "checkpointable": true},
	{"name": "b", "calls": 1, "checkpointable": true}],
"calls": [{"module": "a", "outer": -1}, {"module": "b", "outer": -1}],
"storages": [{"bytes": 8, "held": true}, {"bytes": 100}, {"bytes": 10}, {"bytes": 4}, {"bytes": 10}, {"bytes": 100},
	{"bytes": 8, "kept": true}],
"backward": 3, "steps": [
{"op": "up", "call": 0, "reads": [0], "makes": [1], "flops": 1000, "moved": 108, "dtype": "bfloat16", "keeps": 2},
{"op": "down", "call": 1, "reads": [1], "makes": [2], "keeps": KEEPS},
{"op": "sum", "reads": [2], "makes": [3]},
{"op": "sum_back", "of": 2, "reads": [3], "makes": [4]},
{"op": "down_back", "call": 1, "of": 1, "reads": [4, 1], "makes": [5], "saved": true, "work": 7},
{"op": "up_back", "call": 0, "of": 0, "reads": [5, 1], "makes": [6], "saved": true}]}`

func readStep(t *testing.T, keeps torchsim.Keeping) *torchsim.Traced {
	t.Helper()
	text := strings.ReplaceAll(step, "KEEPS", fmt.Sprint(keeps))
	require.True(t, torchsim.IsStep([]byte(text)))
	traced, err := torchsim.ReadStep(strings.NewReader(text))
	require.NoError(t, err)
	return traced
}

// TestTraced: peaks of a traced step, worked out by hand. Recomputation stops before steps that autograd does not need.
func TestTraced(t *testing.T) {
	p := readStep(t, torchsim.KeepsResults)
	require.Equal(t, int64(8), p.Held)
	u := p.Simulate(nil)
	require.Equal(t, int64(8+100+10+100+7), u.Peak, "1, 4 and 5, and what the kernel of down_back takes")
	require.Equal(t, int64(100+4), u.Saved)

	// b keeps 1; in the backward half it makes 2 once more, or stops before down where its inputs are all it saves.
	s := p.Simulator()
	ops := func(p *torchsim.Traced, calls ...int32) (list []string) {
		s = p.Simulator()
		s.Run(calls)
		s.Live(func(step int, _ int64) { list = append(list, p.Steps[step].Op) })
		return list
	}
	require.Equal(t, []string{"up", "down", "sum", "sum_back", "down", "down_back", "up_back"}, ops(p, 1))
	inputs := readStep(t, torchsim.KeepsInputs)
	require.Equal(t, []string{"up", "down", "sum", "sum_back", "down_back", "up_back"}, ops(inputs, 1))
	require.Equal(t, []string{"up", "down", "sum", "sum_back", "down_back", "up", "up_back"}, ops(inputs, 0, 1))
}

// TestCached: a cast that torch.autocast keeps lives to the end of the forward half; a recomputed one lives to the
// end of its recomputation.
func TestCached(t *testing.T) {
	p := readStep(t, torchsim.KeepsInputs)
	p.Storages[2].Cached, p.Steps[2].Reads = true, nil
	p.Storages[3].Bytes = 1000 // the loss, which is there with it
	require.Equal(t, int64(8+100+10+1000), p.Simulate(nil).Peak)
	require.Equal(t, int64(8+100+10+1000), p.Simulate([]int32{1}).Peak)
}

// TestStepFile: the file that Python's tests write is read, and its checkpoints save memory.
func TestStepFile(t *testing.T) {
	data, err := os.ReadFile("testdata/net.step.json")
	require.NoError(t, err)
	p, err := torchsim.ReadStep(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, p.Held, p.ParameterBytes+p.BufferBytes+p.InputBytes)
	require.Equal(t, "h.0", p.Tree.Modules[p.Tree.Calls[0].Module].Name)
	require.Less(t, p.Simulate([]int32{0}).Peak, p.Simulate(nil).Peak)
}

// TestParts: whatever runs again, the parts of the peak add up to it.
func TestParts(t *testing.T) {
	data, err := os.ReadFile("testdata/net.step.json")
	require.NoError(t, err)
	p, err := torchsim.ReadStep(bytes.NewReader(data))
	require.NoError(t, err)
	s := p.Simulator()
	for first := range p.Tree.Calls {
		for second := range first {
			calls := []int32{int32(second), int32(first)}
			u := s.Run(calls)
			at := s.Parts(len(calls))
			require.Equal(t, u.Peak, p.Held+at.Gradients+at.Activations+at.Temporaries+at.Work, calls)
		}
	}
}

// TestGradients: those of parameters stay, those that are added to sums do not.
func TestGradients(t *testing.T) {
	p := readStep(t, torchsim.KeepsInputs)
	p.Storages[6].Kept = true
	bytes := p.Storages[6].Bytes
	require.Equal(t, torchsim.Gradients{Bytes: bytes, Largest: bytes, Count: 1}, p.Gradients())
	require.Zero(t, p.Outputs())
	require.Zero(t, p.Accumulating().Gradients())
	require.Equal(t, bytes, p.Gradients().Bytes, "the program itself is as it was")
	p.Storages[3].Kept = true
	require.Equal(t, p.Storages[3].Bytes, p.Outputs())
}

// TestDamagedSteps: each fault of a file is named.
func TestDamagedSteps(t *testing.T) {
	good := strings.ReplaceAll(step, "KEEPS", "1")
	for _, c := range [][3]string{
		{`"memopt-step"`, `"memopt-modules"`, `is of format "memopt-modules", version 1: wanted "memopt-step"`},
		{`"version": 1`, `"version": 2`, "version 2: wanted"},
		{`"outer": -1}]`, `"outer": 1}]`, "call 1 (b) lies in call 1, which does not come before it"},
		{`"backward": 3`, `"backward": 6`, "backward is 6 of 6 steps"},
		{`"backward": 3`, `"backward": 0`, "backward is 0 of 6 steps"},
		{`{"bytes": 10}`, `{"bytes": -10}`, "storage 2 has -10 bytes"},
		{`{"bytes": 100}, {"bytes": 10}`, `{"bytes": 4611686018427387903}, {"bytes": 10}`, "storage 1 has"},
		{`"call": 1, "reads": [1]`, `"call": 2, "reads": [1]`, "step 1 (down): is of call 2, the file has 2"},
		{`"of": 1,`, `"of": 3,`, "step 4 (down_back): is the backward of step 3, the forward half has 3"},
		{`"of": 1,`, ``, "step 4 (down_back): is the backward of step -1"},
		{`"call": 1, "reads": [1]`, `"of": 0, "reads": [1]`, "step 1 (down): is the backward of step 0"},
		{`"work": 7`, `"work": -7`, "step 4 (down_back): takes -7 bytes"},
		{`"makes": [6]`, `"makes": [7]`, "step 5 (up_back): has storage 7, the file has 7"},
		{`"reads": [3]`, `"reads": [-1]`, "step 3 (sum_back): has storage -1"},
		{`"steps": [`, `"steps": [[`, "wanted a step as memopt.torch.trace writes it"},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		require.NotEqual(t, good, bad, c[0])
		_, err := torchsim.ReadStep(strings.NewReader(bad))
		require.ErrorContains(t, err, c[2])
	}
	require.False(t, torchsim.IsStep([]byte(`{"format": "memopt-modules"}`)))
	require.False(t, torchsim.IsStep([]byte("memopt-step")))
	require.False(t, torchsim.IsStep(nil))
}

// FuzzReadStep: no file does harm, and one that is read can be simulated with any call under a checkpoint.
func FuzzReadStep(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(step, "KEEPS", "2")))
	f.Add([]byte(strings.ReplaceAll(step, "KEEPS", "0")))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := torchsim.ReadStep(bytes.NewReader(data))
		if err != nil {
			return
		}
		s := p.Simulator()
		none := s.Run(nil)
		require.GreaterOrEqual(t, none.Peak, p.Held)
		calls := []int32{}
		for c := range p.Tree.Calls {
			calls = append(calls, int32(c))
			s.Run([]int32{int32(c)})
		}
		s.Run(calls)
		require.NotEmpty(t, json.Valid(data))
	})
}
