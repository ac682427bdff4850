//go:build linux && (amd64 || arm64) && !nodl

package ort_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/ort"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	ortsim "memopt/sim/ort"
)

// TestOverwrites holds what ortsim.Overwrites says to the runtime: an output that is bound to an
// operand's memory has the same bits as one with memory of its own, with one thread and with two,
// and is not in the arena.
func TestOverwrites(t *testing.T) {
	library := open(t)
	tested := 0
	for k := range op.NumKinds {
		kind := graph.Kind(k)
		slots := ortsim.Overwrites(kind)
		info := op.Of(kind)
		text, ok := map[graph.Kind]string{
			op.Where: "Where(c, %s, %s)", op.ScatterND: "ScatterND(%s, at2, u2)",
			op.ScatterElements: "ScatterElements(%s, at, u)", op.Trilu: "Trilu(%s)", op.Not: "",
			op.Mul: "Mul(%s, %s)", op.Div: "Div(%s, %s)", op.Add: "Add(%s, %s)", op.Sub: "Sub(%s, %s)",
		}[kind]
		if !ok {
			text = info.Name + "(%s)"
		}
		if slots == nil || text == "" {
			continue
		}
		for _, other := range []string{"a", "s"} {
			for _, slot := range slots {
				operands := []any{other, other}[:strings.Count(text, "%s")]
				operands[slot-slots[0]] = "x"
				overwrite(t, library, fmt.Sprintf(text, operands...))
				tested++
			}
		}
	}
	require.Greater(t, tested, 40)
}

// overwrite runs a node whose output y is bound to the memory of x.
func overwrite(t *testing.T, library *ort.Library, node string) {
	m, _ := parse(t, `g (float[300, 301] x, float[300, 301] a, float s, bool[300, 301] c, int64[2, 301] at, `+
		`float[2, 301] u, int64[2, 2] at2, float[2] u2) => (float[300, 301] y) { y = `+node+` }`)
	var model bytes.Buffer
	require.NoError(t, onnx.Write(&model, m))
	for threads := 1; threads <= 2; threads++ {
		s, err := library.NewSessionBytes(model.Bytes(), ort.Options{Threads: threads})
		require.NoError(t, err, node)
		inputs, byName := made(t, m)
		feed, err := s.Feed(inputs)
		require.NoError(t, err)
		want := first(t, s, feed)
		require.NoError(t, feed.Bind("y", byName["x"]))
		got := first(t, s, feed)
		require.True(t, bytes.Equal(want.Data, got.Data), node)
		require.True(t, bytes.Equal(want.Data, byName["x"].Data), node)
		st, err := s.Stats()
		require.NoError(t, err)
		require.Less(t, st.InUse, int64(len(want.Data)), node)
		feed.Close()
		s.Close()
	}
}

// first runs a model and returns a copy of its first output.
func first(t *testing.T, s *ort.Session, f *ort.Feed) *executor.Tensor {
	r, err := s.Run(f)
	require.NoError(t, err)
	defer r.Close()
	out, err := r.Copy(0)
	require.NoError(t, err)
	return out
}

// TestStates runs steps that go on with what the step before has made, over the old values and in
// second buffers that change places, and begins anew.
func TestStates(t *testing.T) {
	p := start(t)
	dir := t.TempDir()
	m, _ := parse(t, `g (float[2] w, float[2] m, float[2] x) => (float[2] y, float[2] w2, float[2] m2) `+
		`{ y = Mul(w, x)  w2 = Add(w, x)  m2 = Sub(w2, m) }`)
	inputs := []ort.Named{}
	for i, name := range []string{"w", "m", "x"} {
		v := executor.NewTensor(graph.Float32, []int{2}, float32(i+1), float32(2*i))
		inputs = append(inputs, ort.Named{Name: name, Tensor: v})
	}
	files, err := ort.WriteInputs(dir, inputs)
	require.NoError(t, err)
	path := write(t, dir, m, onnx.Options{})
	for _, bad := range []ort.State{{Input: "no", Output: "w2"}, {Input: "w", Output: "no"}} {
		_, err = start(t).Open(path, ort.Options{}, files, []ort.State{bad})
		require.ErrorContains(t, err, `"no"`)
	}
	states := []ort.State{{Input: "w", Output: "w2"}, {Input: "m", Output: "m2", InPlace: true}}
	_, err = p.Open(path, ort.Options{Threads: 1}, files, states)
	require.NoError(t, err)
	for range 2 {
		w, mm, x := []float32{1, 0}, []float32{2, 2}, []float32{3, 4}
		for step := range 5 {
			_, err = p.Step()
			require.NoError(t, err)
			out, err := p.Outputs(dir)
			require.NoError(t, err)
			for i := range w {
				y := w[i] * x[i]
				w[i] += x[i]
				mm[i] = w[i] - mm[i]
				require.Equal(t, y, executor.Of[float32](out[0].Tensor)[i], "step %d", step)
			}
			require.Equal(t, w, executor.Of[float32](out[1].Tensor), "step %d", step)
			require.Equal(t, mm, executor.Of[float32](out[2].Tensor), "step %d", step)
		}
		require.NoError(t, p.Restart())
	}
}

// TestTornStates lets a step fail that may have written a state: no step goes on from there, and a
// restart has all states as they were.
func TestTornStates(t *testing.T) {
	p := start(t)
	dir := t.TempDir()
	m, _ := parse(t, `g (float[2] w, int64[1] at) => (float[2] w2, float[1] y, int64[1] at2) `+
		`<int64[1] one = {1}> { w2 = Add(w, w)  y = Gather(w2, at)  at2 = Add(at, one) }`)
	files, err := ort.WriteInputs(dir, []ort.Named{
		{Name: "w", Tensor: executor.NewTensor[float32](graph.Float32, []int{2}, 1, 2)},
		{Name: "at", Tensor: executor.NewTensor[int64](graph.Int64, []int{1}, 1)}})
	require.NoError(t, err)
	_, err = p.Open(write(t, dir, m, onnx.Options{}), ort.Options{Threads: 1}, files,
		[]ort.State{{Input: "w", Output: "w2", InPlace: true}, {Input: "at", Output: "at2"}})
	require.NoError(t, err)
	for range 2 {
		_, err = p.Step()
		require.NoError(t, err)
		out, err := p.Outputs(dir)
		require.NoError(t, err)
		require.Equal(t, []float32{2, 4}, executor.Of[float32](out[0].Tensor))
		_, err = p.Step() // index 2 is out of bounds
		require.ErrorContains(t, err, "cannot run the model")
		_, err = p.Step()
		require.ErrorContains(t, err, "an earlier step failed")
		require.NoError(t, p.Restart())
	}
}
