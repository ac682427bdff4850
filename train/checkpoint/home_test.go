package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/train/checkpoint"
	"memopt/train/safetensors"
)

// homeStates are the states of the homes here.
func homeStates() (weights, others []safetensors.Entry) {
	return floats(5, "w", "b"), floats(2000, "w.m")
}

// settled opens a home and gives its states the values of a step.
func settled(t *testing.T, dir string, step int64) (*checkpoint.Home, *executor.Store) {
	t.Helper()
	h, err := checkpoint.OpenHome(dir)
	require.NoError(t, err)
	weights, others := homeStates()
	at, err := h.Lay(weights, others, nil)
	require.NoError(t, err)
	s, err := executor.NewStoreIn(cpu.Device{}, at)
	require.NoError(t, err)
	put(t, s, step)
	require.NoError(t, h.Commit(&checkpoint.Manifest{Step: step, Accumulation: 1}, false))
	return h, s
}

// put gives all states the values of a step.
func put(t *testing.T, s *executor.Store, step int64) {
	t.Helper()
	weights, others := homeStates()
	for _, e := range append(weights, others...) {
		n, _ := executor.Bytes(e.DType, e.Shape)
		data := make([]byte, n)
		require.NoError(t, filled(step)(e.Name, data))
		require.NoError(t, s.Put(e.Name, &executor.Tensor{DType: e.DType, Shape: e.Shape, Data: data}))
	}
}

// shows requires a home to have the values of a step.
func shows(t *testing.T, c *checkpoint.Checkpoint, err error, step int64) {
	t.Helper()
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, step, c.Step)
	for _, f := range []*safetensors.File{c.Weights, c.Others} {
		for _, e := range f.Entries() {
			got, _ := f.Tensor(e.Name)
			want := make([]byte, len(got.Data))
			require.NoError(t, filled(step)(e.Name, want))
			require.Equal(t, want, got.Data)
		}
	}
	require.Len(t, c.Weights.Entries(), 2)
	require.Len(t, c.Others.Entries(), 1)
}

// TestHomeKeeps: committed values stay until the next commit, however often others are written meanwhile; no other
// process reads or takes the folder while it is open.
func TestHomeKeeps(t *testing.T) {
	dir := t.TempDir()
	h, s := settled(t, dir, 1)
	for step := int64(2); step < 6; step++ {
		for range step { // once, or several times
			put(t, s, 100+step)
		}
		c, err := h.Load()
		shows(t, c, err, step-1)
		put(t, s, step)
		m := &checkpoint.Manifest{Step: step, Accumulation: 0}
		require.ErrorContains(t, h.Commit(m, false), "accumulation is 0")
		put(t, s, step)
		c, err = h.Load()
		shows(t, c, err, step-1)
		m.Accumulation = 1
		require.NoError(t, h.Commit(m, step%2 == 0))
		c, err = h.Load()
		shows(t, c, err, step)
	}
	_, err := checkpoint.Load(dir)
	require.ErrorContains(t, err, "locked by another process")
	_, err = checkpoint.OpenHome(dir)
	require.ErrorContains(t, err, "another job has its states in "+dir)
	require.NoError(t, s.Close())
	require.NoError(t, h.Close())
	c, err := checkpoint.Load(dir)
	require.NoError(t, err)
	_, err = checkpoint.OpenHome(dir)
	require.ErrorContains(t, err, "another job has its states in "+dir, "as long as they are read")
	shows(t, c, nil, 5)

	// A job that goes on has the values without giving them.
	h, err = checkpoint.OpenHome(dir)
	require.NoError(t, err)
	defer h.Close()
	c, err = h.Load()
	require.NoError(t, err)
	require.True(t, h.Owns(c))
	weights, others := homeStates()
	at, err := h.Lay(weights, others, c)
	require.NoError(t, err)
	s, err = executor.NewStoreIn(cpu.Device{}, at)
	require.NoError(t, err)
	defer s.Close()
	got, want := make([]byte, 8000), make([]byte, 8000)
	require.NoError(t, filled(5)("w.m", want))
	require.NoError(t, s.Read("w.m", got))
	require.Equal(t, want, got)
	put(t, s, 6)
	require.NoError(t, s.Read("w.m", got))
	require.NotEqual(t, want, got)
	shows(t, c, nil, 5)
}

// TestHomeFaults: a home whose file is missing, cut off, another's or of an earlier start of the machine is refused,
// and so is one for other states.
func TestHomeFaults(t *testing.T) {
	dir := t.TempDir()
	manifest, states := filepath.Join(dir, "checkpoint.json"), filepath.Join(dir, "states")
	edit := func(f func(r *checkpoint.Resident)) func() {
		return func() {
			h, s := settled(t, dir, 2)
			m, err := h.Has()
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.NoError(t, h.Close())
			f(m.States)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(manifest, checkpoint.Signed(text), 0o666))
		}
	}
	for want, spoil := range map[string]func(){
		"no such file":                  func() { os.Remove(states) },
		"it is cut off or another file": func() { os.Truncate(states, 4096) },
		"checkpoint.json wants":         func() { os.Truncate(states, 1<<20) },
		"it has been edited": func() {
			data, err := os.ReadFile(manifest)
			require.NoError(t, err)
			data = bytes.Replace(data, []byte(`"step": 2`), []byte(`"step": 3`), 1)
			require.NoError(t, os.WriteFile(manifest, data, 0o666))
		},
		"the machine was started anew": edit(func(r *checkpoint.Resident) { r.Boot = "another" }),
		"place 2":                      edit(func(r *checkpoint.Resident) { r.Tensors[0].Now = 2 }),
		"place -1":                     edit(func(r *checkpoint.Resident) { r.Tensors[0].Now = -1 }),
		`type "text"`:                  edit(func(r *checkpoint.Resident) { r.Tensors[0].DType = "text" }),
		"shape [-1]":                   edit(func(r *checkpoint.Resident) { r.Tensors[0].Shape[0] = -1 }),
		"lies at byte 1 of":            edit(func(r *checkpoint.Resident) { r.Tensors[0].At[0] = 1 }),
		"lies at byte -4096 of":        edit(func(r *checkpoint.Resident) { r.Tensors[0].At[1] = -4096 }),
		"lies at byte 1048576 of":      edit(func(r *checkpoint.Resident) { r.Tensors[0].At[1] = 1 << 20 }),
		"two lie at byte":              edit(func(r *checkpoint.Resident) { r.Tensors[0].At[1] = r.Tensors[1].At[0] }),
	} {
		h, s := settled(t, dir, 2)
		require.NoError(t, s.Close())
		require.NoError(t, h.Close())
		c, err := checkpoint.Load(dir)
		shows(t, c, err, 2)
		spoil()
		_, err = checkpoint.Load(dir)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dir)
		if want == "the machine was started anew" {
			h, err := checkpoint.OpenHome(dir)
			require.NoError(t, err)
			m, err := h.Has()
			require.NoError(t, err)
			require.Nil(t, m, "its folder is free for another job")
			require.NoError(t, h.Close())
		}
		os.Remove(manifest)
	}
	edit(func(r *checkpoint.Resident) { r.Boot, r.Synced = "another", true })()
	c, err := checkpoint.Load(dir)
	shows(t, c, err, 2)
	weights, others := homeStates()
	for want, list := range map[string][2][]safetensors.Entry{
		`has no "x"`:   {append(floats(5, "x"), weights[1:]...), others},
		`has no "w"`:   {append(floats(6, "w"), weights[1:]...), others},
		`has 3 states`: {weights, nil},
		"no \"b\" of type double": {[]safetensors.Entry{weights[0], {Name: "b", DType: graph.Float64, Shape: []int{5}}},
			others},
	} {
		h, err := checkpoint.OpenHome(dir)
		require.NoError(t, err)
		c, err := h.Load()
		require.NoError(t, err)
		_, err = h.Lay(list[0], list[1], c)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "another model or optimizer")
		require.NoError(t, c.Close())
		require.NoError(t, h.Close())
	}
}
