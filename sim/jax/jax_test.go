package jax_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/sim/jax"
)

// steps has what bench/jaxnames/names.py recorded with JAX 0.10.2.
const steps = "testdata/steps.zip"

type figure struct {
	Net   string
	Step  int
	Keeps []string
	Peak  int64 `json:"peak_bytes"`
	Equal bool
}

func recorded(t *testing.T) ([]figure, func(name string) []byte) {
	t.Helper()
	z, err := zip.OpenReader(steps)
	require.NoError(t, err)
	t.Cleanup(func() { z.Close() })
	read := func(name string) []byte {
		f, err := z.Open(name)
		require.NoError(t, err)
		defer f.Close()
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		return data
	}
	var list []figure
	require.NoError(t, json.Unmarshal(read("figures.json"), &list))
	return list, read
}

func program(t *testing.T, data []byte) *jax.Program {
	t.Helper()
	p, err := jax.Read(bytes.NewReader(data))
	require.NoError(t, err)
	return p
}

func keeping(names []string) jax.Policy {
	p := jax.Policy{}
	for _, n := range names {
		p[n] = jax.Keep
	}
	return p
}

// TestPolicies: the step that a policy makes of the one that keeps no value is the step that JAX traces with that
// policy: the same equations with results of the same sizes, as often in loops, and the same peak.
func TestPolicies(t *testing.T) {
	list, read := recorded(t)
	compared := 0
	for _, f := range list {
		p := program(t, read(f.Net+"/names.json"))
		traced := &jax.Body{}
		require.NoError(t, json.Unmarshal(read(fmt.Sprintf("%s/%d.json", f.Net, f.Step)), traced))
		own := p.Everything
		if f.Keeps != nil {
			own = p.With(keeping(f.Keeps)).Body
		} else {
			own = (&jax.Program{Nothing: own}).With(nil).Body
		}
		theirs := (&jax.Program{Nothing: traced}).With(nil).Body
		require.Equal(t, equations(theirs), equations(own), "%s %q", f.Net, f.Keeps)
		require.Equal(t, p.Peak(theirs), p.Peak(own), "%s %q", f.Net, f.Keeps)
		compared++
	}
	require.Greater(t, compared, 40)
}

// equations counts the equations of a step by primitive, operations and bytes of results. Those without work of their
// own do not count: names, and the rounding of kept values that JAX puts in.
func equations(b *jax.Body) map[string]int {
	out := map[string]int{}
	var visit func(b *jax.Body, prefix string)
	visit = func(b *jax.Body, prefix string) {
		for i := range b.Steps {
			s := &b.Steps[i]
			if s.Primitive == "name" || s.Primitive == "memopt.take" || s.Primitive == "reduce_precision" {
				continue
			}
			var bytes int64
			for _, v := range s.Out {
				bytes += b.Bytes[v]
			}
			key := fmt.Sprintf("%s%s %d %d", prefix, s.Primitive, s.FLOPs, bytes)
			out[key]++
			for _, x := range s.Bodies {
				visit(x, key+"/")
			}
		}
	}
	visit(b, "")
	return out
}

// worst are the largest deviations from the bytes of XLA's compiler for the CPU, by net, in percent.
var worst = map[string]float64{"mlp": 8.4, "mlp_blocks": 24.1, "mlp_scan": 7.1, "cnn": 15.5, "gpt": 21.4,
	"gpt_scan": 22.7, "llama": 16.4, "llama_scan": 18.1}

// TestPeaks: peaks are near those of XLA.
func TestPeaks(t *testing.T) {
	list, read := recorded(t)
	for _, f := range list {
		require.True(t, f.Equal, "gradients are those without checkpoints, bit for bit: %+v", f)
		p := program(t, read(f.Net+"/names.json"))
		b := p.Everything
		if f.Keeps != nil {
			b = p.With(keeping(f.Keeps)).Body
		}
		off := 100 * (float64(p.Peak(b).Peak)/float64(f.Peak) - 1)
		t.Logf("%-12s %d of %d names %9.3f MiB %+.1f %%", f.Net, len(f.Keeps), len(p.Names),
			float64(f.Peak)/(1<<20), off)
		require.LessOrEqual(t, math.Abs(off), worst[f.Net], "%s %q", f.Net, f.Keeps)
	}
}

// TestSaved: a policy keeps as many bytes as the backward half reads of it, in all turns of a loop.
func TestSaved(t *testing.T) {
	_, read := recorded(t)
	const kept = 6 * 1024 * 256 * 4
	for _, net := range []string{"mlp", "mlp_scan"} {
		p := program(t, read(net+"/names.json"))
		require.Equal(t, []string{"act", "pre"}, p.Names)
		require.Equal(t, map[string]int64{"pre": kept}, p.With(keeping(p.Names)).Bytes)
		require.Empty(t, p.With(keeping([]string{"act"})).Bytes, "the next layer keeps its operand anyway")
		moved := p.With(jax.Policy{"pre": jax.Offload})
		require.Equal(t, map[string]int64{"pre": kept}, moved.Bytes)
		require.EqualValues(t, kept, moved.Moved)
		again, keep := p.With(nil), p.With(keeping([]string{"pre"}))
		require.Less(t, p.Peak(moved.Body).Peak, p.Peak(keep.Body).Peak)
		products := func(k jax.Kernel) float64 {
			if k.Product {
				return 1
			}
			return 0
		}
		// A layer has a product forward and two backward; the first layer's input has no gradient.
		require.EqualValues(t, 6, p.Seconds(again.Body, products)-p.Seconds(keep.Body, products))
		require.EqualValues(t, p.Seconds(keep.Body, products), p.Seconds(moved.Body, products))
	}
}

// TestPeakByHand: a step that is small enough to count.
func TestPeakByHand(t *testing.T) {
	const text = `{"format": "memopt-names", "version": 1, "jax": "0", "held_bytes": 7, "names": ["a"], "free": [],
		"everything": {"bytes": [], "inputs": [], "outputs": [], "steps": []},
		"nothing": {"bytes": [100, 1000, 1000, 1000, 1000, 1000, 8, 100], "inputs": [0], "outputs": [6, 7], "steps": [
			{"op": "dot_general", "in": [0], "out": [1], "flops": 1},
			{"op": "name", "in": [1], "out": [2], "name": "a", "of": 0},
			{"op": "dot_general", "in": [2], "out": [6], "flops": 1},
			{"op": "dot_general", "in": [0], "out": [3], "flops": 1, "region": 0},
			{"op": "name", "in": [3], "out": [4], "name": "a", "of": 0, "region": 0},
			{"op": "tanh", "in": [4], "out": [5], "flops": 1, "region": 0},
			{"op": "dot_general", "in": [5], "out": [7], "flops": 1, "region": 0}]}}`
	p := program(t, []byte(text))
	// tanh lies in its operand's memory. The results of 8 and 100 bytes are there throughout.
	again := p.With(nil)
	require.Equal(t, jax.Usage{Peak: 7 + 100 + 108 + 1000, Arguments: 100, Results: 108, Heap: 1000},
		p.Peak(again.Body))
	keep := p.With(keeping([]string{"a"}))
	require.Equal(t, map[string]int64{"a": 1000}, keep.Bytes)
	require.Len(t, keep.Body.Steps, 6)
	require.EqualValues(t, 1000, p.Peak(keep.Body).Heap)
	moved := p.With(jax.Policy{"a": jax.Offload})
	require.EqualValues(t, 1000, moved.Moved)
	one := func(jax.Kernel) float64 { return 1 }
	require.EqualValues(t, 5, p.Seconds(again.Body, one))
	require.EqualValues(t, 4, p.Seconds(keep.Body, one))
	require.EqualValues(t, 4, p.Seconds(moved.Body, one), "a copy is no kernel")
	require.EqualValues(t, 1000, p.Peak(moved.Body).Heap)
	require.True(t, slices.ContainsFunc(moved.Body.Steps,
		func(s jax.Step) bool { return s.Primitive == "memopt.reload" }))
}

// byHand is a program of a step in JSON.
func byHand(t *testing.T, free, step string) *jax.Program {
	t.Helper()
	return program(t, []byte(`{"format": "memopt-names", "version": 1, "free": [`+free+`],
		"everything": {"bytes": [], "inputs": [], "outputs": [], "steps": []}, "nothing": `+step+`}`))
}

// TestUnread: steps, operands of loops and carried values that no result comes of go; a carried value that another
// one's next value is made of stays.
func TestUnread(t *testing.T) {
	p := byHand(t, "", `{"bytes": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "inputs": [0, 1, 2, 3, 4, 5], "outputs": [6],
		"steps": [{"op": "scan", "in": [0, 1, 2, 3, 4, 5], "out": [6, 7, 8, 9], "length": 3, "consts": 2, "carry": 3,
			"bodies": [{"bytes": [1, 1, 1, 1, 1, 1, 1, 1, 1], "inputs": [0, 1, 2, 3, 4, 5], "outputs": [6, 7, 8, 7],
				"steps": [{"op": "sort", "in": [3], "out": [6]}, {"op": "sort", "in": [3, 1], "out": [7]},
					{"op": "sort", "in": [4, 5, 0], "out": [8]}]}]},
			{"op": "sort", "in": [9], "out": [10]}]}`)
	b := p.With(nil).Body
	require.Len(t, b.Steps, 1)
	s := b.Steps[0]
	require.Equal(t, []int32{1, 2, 3}, s.In)
	require.Equal(t, []int32{6, 7}, s.Out)
	require.Equal(t, []int{1, 2}, []int{s.Consts, s.Carry})
	require.Equal(t, []int32{1, 2, 3}, s.Bodies[0].Inputs)
	require.Equal(t, []int32{6, 7}, s.Bodies[0].Outputs)
	require.Len(t, s.Bodies[0].Steps, 2)

	// A named value whose second making is not read is not kept.
	p = byHand(t, "", `{"bytes": [1, 10, 10, 10, 10], "inputs": [0], "outputs": [2], "steps": [
		{"op": "sort", "in": [0], "out": [1]}, {"op": "name", "in": [1], "out": [2], "name": "a", "of": 0},
		{"op": "sort", "in": [0], "out": [3], "region": 0},
		{"op": "name", "in": [3], "out": [4], "name": "a", "of": 0, "region": 0}]}`)
	require.Empty(t, p.With(keeping([]string{"a"})).Bytes)

	// Nor is one that is made twice outside of the checkpoints' regions.
	p = byHand(t, "", `{"bytes": [1, 10, 10, 10, 10], "inputs": [0], "outputs": [2, 4], "steps": [
		{"op": "sort", "in": [0], "out": [1]}, {"op": "name", "in": [1], "out": [2], "name": "a", "of": 0},
		{"op": "sort", "in": [0], "out": [3]}, {"op": "name", "in": [3], "out": [4], "name": "a", "of": 0}]}`)
	require.Empty(t, p.With(keeping([]string{"a"})).Bytes)
	require.Len(t, p.With(keeping([]string{"a"})).Body.Steps, 4)
}

// TestHeapByHand: heaps that are small enough to count.
func TestHeapByHand(t *testing.T) {
	scan := func(carry, body string) string {
		return `{"bytes": [1, 100, 100, 1, 300], "inputs": [0], "outputs": [3], "steps": [
			{"op": "sort", "in": [0], "out": [1]},
			{"op": "scan", "in": [1], "out": [2], "length": 9, "carry": ` + carry + `, "bodies": [` + body + `]},
			{"op": "sort", "in": [2], "out": [3]}]}`
	}
	for name, c := range map[string]struct {
		step string
		free string
		heap int64
	}{
		"the carried value is free between its last reader and its next maker": {scan("1", `{"bytes": [100, 1, 5000, 1, 100],
			"inputs": [0], "outputs": [4], "steps": [{"op": "sort", "in": [0], "out": [1]},
			{"op": "sort", "in": [1], "out": [2]}, {"op": "sort", "in": [2], "out": [3]},
			{"op": "sort", "in": [3], "out": [4]}]}`), "", 5001},
		"a next value that is made before the last reader is copied": {scan("1", `{"bytes": [100, 100, 7000],
			"inputs": [0], "outputs": [1], "steps": [{"op": "sort", "in": [0], "out": [1]},
			{"op": "sort", "in": [0], "out": [2]}]}`), "", 7200},
		"and its memory is free till then": {scan("1", `{"bytes": [100, 100, 7000, 9000],
			"inputs": [0], "outputs": [1], "steps": [{"op": "sort", "in": [0], "out": [1]},
			{"op": "sort", "in": [0], "out": [2]}, {"op": "sort", "in": [2], "out": [3]}]}`), "", 16100},
		"a barrier between regions": {`{"bytes": [1, 100, 1], "inputs": [0], "outputs": [2], "steps": [
			{"op": "neg", "in": [0], "out": [1], "region": 3},
			{"op": "reduce_sum", "in": [1], "out": [2], "region": 4}]}`, "", 100},
		"a constant of a loop is there to its end": {`{"bytes": [1, 100, 1, 1], "inputs": [0], "outputs": [3], "steps": [
			{"op": "sort", "in": [0], "out": [1]},
			{"op": "scan", "in": [1, 0], "out": [2], "length": 9, "consts": 1, "carry": 1, "bodies": [
				{"bytes": [100, 1, 1, 5000, 1], "inputs": [0, 1], "outputs": [4], "steps": [
				{"op": "sort", "in": [0, 1], "out": [2]}, {"op": "sort", "in": [2], "out": [3]},
				{"op": "sort", "in": [3], "out": [4]}]}]},
			{"op": "sort", "in": [2], "out": [3]}]}`, "", 5101},
		"a value lies in a result that is not there yet": {`{"bytes": [1, 90, 1, 100], "inputs": [0], "outputs": [3], "steps": [
			{"op": "sort", "in": [0], "out": [1]}, {"op": "sort", "in": [1], "out": [2]},
			{"op": "sort", "in": [2], "out": [3]}]}`, "", 1},
		"a barrier": {`{"bytes": [1, 100, 1], "inputs": [0], "outputs": [2], "steps": [
			{"op": "neg", "in": [0], "out": [1]}, {"op": "reduce_sum", "in": [1], "out": [2], "region": 4}]}`, "", 100},
		"no barrier": {`{"bytes": [1, 100, 1], "inputs": [0], "outputs": [2], "steps": [
			{"op": "neg", "in": [0], "out": [1]}, {"op": "reduce_sum", "in": [1], "out": [2], "region": 4}]}`, "4", 0},
		"within a region": {`{"bytes": [1, 100, 1], "inputs": [0], "outputs": [2], "steps": [
			{"op": "neg", "in": [0], "out": [1], "region": 4},
			{"op": "reduce_sum", "in": [1], "out": [2], "region": 4}]}`, "", 0},
		"a slice of a stack is read in place": {`{"bytes": [900, 1, 1], "inputs": [0, 1], "outputs": [2], "steps": [
			{"op": "scan", "in": [1, 0], "out": [2], "length": 9, "carry": 1, "bodies": [
				{"bytes": [1, 100, 1], "inputs": [0, 1], "outputs": [2], "steps": [
				{"op": "reduce_sum", "in": [1, 0], "out": [2]}]}]}]}`, "", 1},
		"a slice of a stack is taken out": {`{"bytes": [900, 1, 1], "inputs": [0, 1], "outputs": [2], "steps": [
			{"op": "scan", "in": [1, 0], "out": [2], "length": 9, "carry": 1, "bodies": [
				{"bytes": [1, 100, 1], "inputs": [0, 1], "outputs": [2], "steps": [
				{"op": "sort", "in": [1, 0], "out": [2]}]}]}]}`, "", 101},
	} {
		p := byHand(t, c.free, c.step)
		require.Equal(t, c.heap, p.Peak(p.Nothing).Heap, name)
	}
}

// TestReadErrors: errors say which part of a file is wrong.
func TestReadErrors(t *testing.T) {
	const head = `{"format": "memopt-names", "version": 1, `
	body := func(text string) string { return head + `"nothing": ` + text + `, "everything": {}}` }
	scan := func(text string) string {
		return body(`{"bytes": [1, 1], "inputs": [0], "outputs": [1], "steps": [{"op": "scan", ` + text +
			`, "in": [0], "out": [1]}]}`)
	}
	for text, want := range map[string]string{
		``:   "wanted names as memopt.jax.names writes them: EOF",
		`{}`: `is of format "", version 0: wanted "memopt-names", version 1`,
		`{"format": "memopt-names", "version": 2}`:                                                 "version 2",
		head + `"held_bytes": -1}`:                                                                 "held_bytes is -1",
		head + `"nothing": {}}`:                                                                    "has not both steps",
		body(`{"bytes": [-1]}`):                                                                    "nothing: value 0 has -1 bytes",
		body(`{"bytes": [4611686018427387904]}`):                                                   "value 0 has 4611686018427387904 bytes",
		body(`{"bytes": [1], "inputs": [1]}`):                                                      "value 1, which is there already or not one of 1",
		body(`{"bytes": [1], "inputs": [0, 0]}`):                                                   "makes value 0",
		body(`{"bytes": [1], "outputs": [0]}`):                                                     "reads value 0 before it is made",
		body(`{"bytes": [1], "outputs": [-2]}`):                                                    "reads value -2",
		body(`{"bytes": [1], "steps": [{"op": "x", "in": [0], "out": [0]}]}`):                      "step 0 (x): reads value 0 before",
		body(`{"bytes": [1], "steps": [{"op": "x", "flops": -1}]}`):                                "has -1 operations",
		body(`{"bytes": [1], "steps": [{"op": "name", "in": [], "out": [0]}]}`):                    `names 1 of 0 values ""`,
		body(`{"steps": [{"op": "cond", "bodies": [null]}]}`):                                      "has a body of null",
		scan(`"length": 1`):                                                                        "has 0 bodies",
		scan(`"length": -1, "bodies": [{}]`):                                                       "-1 turns",
		scan(`"length": 1, "bodies": [{}]`):                                                        "its body 0 and 0",
		scan(`"length": 1, "carry": 2, "bodies": [{"bytes": [1], "inputs": [0], "outputs": [0]}]`): "2 carried values",
		body(strings.Repeat(`{"steps": [{"op": "cond", "bodies": [`, 80) + `{}` + strings.Repeat(`]}]}`, 80)): "64 deep",
	} {
		_, err := jax.Read(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
	require.True(t, jax.IsNames([]byte(" \n"+head)))
	require.False(t, jax.IsNames([]byte(`["memopt-names"]`)))
	require.False(t, jax.IsNames([]byte(`{"format": "memopt-step"}`)))
}
