package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/internal/inputfile"
	"memopt/train/checkpoint"
	"memopt/train/safetensors"
)

// TestFaults: a checkpoint of which a file is missing, cut off, edited or another's is refused; the
// error names the file, what it is and what was wanted.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	j, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	defer j.Close()
	old, path := save(t, j, 1), save(t, j, 2)
	edit := func(name string, f func(data []byte) []byte) func() {
		return func() {
			data, err := os.ReadFile(filepath.Join(path, name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(path, name), f(data), 0o666))
		}
	}
	replace := func(from, to string) func(data []byte) []byte {
		return func(data []byte) []byte {
			require.Equal(t, 1, bytes.Count(data, []byte(from)), from)
			return bytes.Replace(data, []byte(from), []byte(to), 1)
		}
	}
	for _, c := range []struct {
		file  string
		spoil func()
		want  string
	}{
		{"weights.safetensors", func() { os.Remove(filepath.Join(path, "weights.safetensors")) },
			"which checkpoint.json names, cannot be read: no such file"},
		{"weights.safetensors", edit("weights.safetensors", func(d []byte) []byte { return d[:len(d)-1] }),
			"bytes; checkpoint.json wants "},
		{"weights.safetensors", edit("weights.safetensors", func(d []byte) []byte { d[len(d)-1] ^= 1; return d }),
			"has SHA-256 "},
		{"weights.safetensors", edit("weights.safetensors", replace(`"__metadata__"`, `"__metadatb__"`)), "header: "},
		{"optimizer.safetensors", func() {
			data, err := os.ReadFile(filepath.Join(old, "optimizer.safetensors"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(path, "optimizer.safetensors"), data, 0o666))
		}, "it has been edited or is another file"},
		{"checkpoint.json", edit("checkpoint.json", func(d []byte) []byte { return d[:len(d)/2] }),
			"it is cut off or has been edited"},
		{"checkpoint.json", edit("checkpoint.json", replace(`"step": 2`, `"step": 3`)), "it has been edited"},
		{"checkpoint.json", edit("checkpoint.json", replace(`"step": 2`, `"step": -2`)), "none can be negative"},
		{"checkpoint.json", edit("checkpoint.json", replace(`"accumulation": 1`, `"accumulation": 0`)), "wanted 1 or more"},
		{"checkpoint.json", edit("checkpoint.json", replace(`checkpoint/v1"`, `checkpoint/v2"`)),
			`schema is "memopt.checkpoint/v2"; wanted "memopt.checkpoint/v1"`},
		{"checkpoint.json", edit("checkpoint.json", replace(`optimizer.safetensors`, `other.safetensors`)),
			"files: optimizer.safetensors is missing"},
		{"checkpoint.json", edit("checkpoint.json", func([]byte) []byte { return []byte("null") }), `schema is ""`},
	} {
		path = save(t, j, 2)
		holds(t, dir, 2)
		c.spoil()
		_, err := checkpoint.Load(dir)
		require.ErrorContains(t, err, c.want, c.file)
		require.ErrorContains(t, err, filepath.Join(path, c.file))
		require.ErrorContains(t, err, "take another checkpoint of the job")
		holds(t, old, 1)
	}
	require.NoError(t, os.Remove(filepath.Join(path, "checkpoint.json")))
	holds(t, dir, 1)
	_, err = checkpoint.Load(path)
	require.ErrorIs(t, err, checkpoint.ErrNone)
	_, err = checkpoint.Load(filepath.Join(dir, "nowhere"))
	require.ErrorContains(t, err, "nowhere: no such file")
	_, err = checkpoint.Load(filepath.Join(dir, "lock"))
	require.ErrorIs(t, err, checkpoint.ErrNone)
	var big *inputfile.SizeError
	require.NoError(t, os.WriteFile(filepath.Join(path, "checkpoint.json"), nil, 0o666))
	require.NoError(t, os.Truncate(filepath.Join(path, "checkpoint.json"), 2<<30))
	_, err = checkpoint.Load(path)
	require.ErrorAs(t, err, &big)
}

// TestSaveFaults: a save that fails leaves all as it was.
func TestSaveFaults(t *testing.T) {
	dir := t.TempDir()
	j, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	defer j.Close()
	save(t, j, 1)
	broken := errors.New("broken")
	good := checkpoint.Manifest{Step: 1, Accumulation: 1}
	for want, c := range map[string]struct {
		m       checkpoint.Manifest
		weights []safetensors.Entry
		read    error
	}{
		`tensor "w": broken`:     {good, floats(1, "w"), broken},
		`has type string`:        {good, []safetensors.Entry{{Name: "w", DType: graph.String}}, nil},
		"accumulation is 0":      {checkpoint.Manifest{Step: 1}, nil, nil},
		"unexpected end of JSON": {checkpoint.Manifest{Step: 1, Accumulation: 1, Plan: []byte("{")}, nil, nil},
	} {
		_, err := j.Save(&c.m, c.weights, nil, func(string, []byte) error { return c.read })
		require.ErrorContains(t, err, want)
		holds(t, dir, 1)
		entries, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	require.NoError(t, os.WriteFile(j.Path(2), nil, 0o666))
	_, err = j.Save(&checkpoint.Manifest{Step: 2, Accumulation: 1}, nil, nil, nil)
	require.ErrorContains(t, err, "no directory")
}

// TestNotFinite: a loss that is not finite, which JSON has no number for, does not keep a job from
// saving.
func TestNotFinite(t *testing.T) {
	j, err := checkpoint.OpenJob(t.TempDir())
	require.NoError(t, err)
	defer j.Close()
	one := 1.0
	for loss, kept := range map[float64]bool{1: true, math.Inf(1): false, math.NaN(): false} {
		path, err := j.Save(&checkpoint.Manifest{Accumulation: 1, Metrics: &checkpoint.Metrics{Loss: loss, Eval: &one}},
			nil, nil, nil)
		require.NoError(t, err)
		c, err := checkpoint.Load(path)
		require.NoError(t, err)
		require.Equal(t, kept, c.Metrics != nil)
		require.NoError(t, c.Close())
	}
}

// TestManifest: what a job saves, it reads again.
func TestManifest(t *testing.T) {
	j, err := checkpoint.OpenJob(t.TempDir())
	require.NoError(t, err)
	defer j.Close()
	want := checkpoint.Manifest{Step: 5, Epoch: 1, Batch: 3, Samples: 80, Tokens: 800, Seed: 1 << 63, DataSeed: 9,
		Model: checkpoint.Model{Path: "m", StructureSHA256: "a", FrozenSHA256: "b"},
		Data:  checkpoint.Data{Paths: []string{"d"}, Samples: 20, Identity: "c"}, Accumulation: 2,
		Optimizer: json.RawMessage(`{"kind":"adamw"}`), LossScale: &checkpoint.LossScale{Scale: 65536, Good: 7},
		Dims: map[string]int64{"batch": 4}, Plan: json.RawMessage(`{}`)}
	path, err := j.Save(&want, floats(1, "w"), nil, filled(5))
	require.NoError(t, err)
	c, err := checkpoint.Load(path)
	require.NoError(t, err)
	defer c.Close()
	got := c.Manifest
	require.JSONEq(t, string(want.Optimizer), string(got.Optimizer))
	got.Optimizer, got.Schedule, want.Schedule = want.Optimizer, nil, nil
	require.Equal(t, want, got)
	require.True(t, c.HasState("w"))
	require.False(t, c.HasState("v"))
}

// TestCheckpointsAreNoLink: a folder of checkpoints, or one of them, that leads elsewhere is not written to.
func TestCheckpointsAreNoLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	empty := func() {
		list, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		require.Empty(t, list)
	}
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "checkpoints")))
	_, err := checkpoint.OpenJob(dir)
	require.ErrorContains(t, err, filepath.Join(dir, "checkpoints")+": it is a symbolic link")
	empty()

	require.NoError(t, os.Remove(filepath.Join(dir, "checkpoints")))
	j, err := checkpoint.OpenJob(dir)
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, os.Symlink(elsewhere, j.Path(2)))
	_, err = j.Save(&checkpoint.Manifest{Step: 2, Accumulation: 1}, nil, nil, nil)
	require.ErrorContains(t, err, "no directory")
	empty()
}
