package checkpoint_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/train/checkpoint"
	"memopt/train/safetensors"
)

// floats are entries of n float32 each.
func floats(n int, names ...string) (list []safetensors.Entry) {
	for _, name := range names {
		list = append(list, safetensors.Entry{Name: name, DType: graph.Float32, Shape: []int{n}})
	}
	return list
}

// filled reads tensors whose contents follow from their name and a step.
func filled(step int64) func(name string, dst []byte) error {
	return func(name string, dst []byte) error {
		text := fmt.Sprintf("%s/%d.", name, step)
		for n := 0; n < len(dst); n += copy(dst[n:], text) {
		}
		return nil
	}
}

// save saves a small checkpoint.
func save(t testing.TB, j *checkpoint.Job, step int64) string {
	t.Helper()
	path, err := j.Save(&checkpoint.Manifest{Step: step, Accumulation: 1}, floats(5, "w", "b"), floats(5, "w.m", "w.v"),
		filled(step))
	require.NoError(t, err)
	return path
}

// holds requires that a checkpoint is what save has written.
func holds(t testing.TB, path string, step int64) {
	t.Helper()
	c, err := checkpoint.Load(path)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, step, c.Step)
	for _, f := range []*safetensors.File{c.Weights, c.Others} {
		require.Len(t, f.Entries(), 2)
		for _, e := range f.Entries() {
			got, _ := f.Tensor(e.Name)
			want := make([]byte, len(got.Data))
			require.NoError(t, filled(step)(e.Name, want))
			require.Equal(t, want, got.Data)
		}
	}
}

// TestJob: what is saved is loaded, steps are listed, the oldest are removed, and one job at a time
// has the folder.
func TestJob(t *testing.T) {
	dir := t.TempDir() + "/job"
	j, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	_, err = checkpoint.OpenJob(dir)
	require.ErrorContains(t, err, "another job writes to "+dir)
	require.ErrorContains(t, err, "pid ")
	for _, step := range []int64{100, 20, 3} {
		require.Equal(t, j.Path(step), save(t, j, step))
		holds(t, j.Path(step), step)
	}
	list, err := j.Steps()
	require.NoError(t, err)
	require.Equal(t, []int64{3, 20, 100}, list)
	holds(t, dir, 100)
	require.NoError(t, j.Prune(2))
	list, err = j.Steps()
	require.NoError(t, err)
	require.Equal(t, []int64{20, 100}, list)
	require.NoError(t, j.Prune(0))
	for _, step := range []int64{101, 102, 103} {
		save(t, j, step)
	}
	require.NoError(t, j.Prune(2))
	list, err = j.Steps()
	require.NoError(t, err)
	require.Equal(t, []int64{102, 103}, list, "three are removed at once")
	save(t, j, 103)
	holds(t, dir+"/checkpoints", 103)
	require.NoError(t, j.Close())
	j, err = checkpoint.OpenJob(dir)
	require.NoError(t, err)
	require.NoError(t, j.Close())
}
