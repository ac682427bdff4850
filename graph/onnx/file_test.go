package onnx_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
)

// write puts a file into a folder and returns its path.
func write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, data, 0o666))
	return path
}

// weightModel is a model whose only weight, of two floats, lies in external data.
func weightModel(entries ...string) string {
	text := `ir_version: 8 opset_import { version: 17 } graph { input { name: "x" }
	  initializer { name: "w" dims: 2 data_type: 1 data_location: EXTERNAL `
	for i := 0; i < len(entries); i += 2 {
		text += fmt.Sprintf(`external_data { key: %q value: %q } `, entries[i], entries[i+1])
	}
	return text + `} node { op_type: "Add" input: "x" input: "w" output: "y" } output { name: "y" } }`
}

func open(t testing.TB, path string) *graph.Model {
	t.Helper()
	m, closer, err := onnx.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closer.Close()) })
	return m
}

// weight reads the contents of initializer w.
func weight(m *graph.Model) ([]byte, error) {
	id, _ := m.Graph.Lookup("w")
	return m.Graph.Values[id].Data.Source.Bytes()
}

var eightBytes = []byte("ABCDEFGH")

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "data/w.bin", append([]byte("skip"), eightBytes...))
	path := write(t, dir, "m.onnx",
		fromText(t, "ModelProto", weightModel("location", "data/w.bin", "offset", "4", "length", "8")))

	m, closer, err := onnx.Open(path)
	require.NoError(t, err)
	assert.Equal(t, path, m.Path)
	got, err := weight(m)
	require.NoError(t, err)
	assert.Equal(t, eightBytes, got)
	name := m.Graph.Nodes[0].Op
	require.NoError(t, closer.Close())
	require.NoError(t, closer.Close(), "a second Close does nothing")
	assert.Equal(t, "Add", name, "strings outlive the mapping")
	_, err = weight(m)
	require.ErrorContains(t, err, "is closed")
}

func TestOpenFaults(t *testing.T) {
	dir := t.TempDir()
	var fault *onnx.FormatError

	_, _, err := onnx.Open(filepath.Join(dir, "absent.onnx"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.False(t, errors.As(err, &fault))

	_, _, err = onnx.Open(dir)
	require.ErrorContains(t, err, "is a directory")
	require.False(t, errors.As(err, &fault))

	_, _, err = onnx.Open(write(t, dir, "empty.onnx", nil))
	require.ErrorContains(t, err, "empty.onnx: the file is empty")
	require.ErrorAs(t, err, &fault)

	_, _, err = onnx.Open(write(t, dir, "text.onnx", []byte("no model at all")))
	require.ErrorContains(t, err, `this is not an ONNX model: it is text that starts with "no model at all"`)
	require.ErrorAs(t, err, &fault)
}

// TestHubCache: a model and its data may be links into one folder, as the caches of model hubs have
// them; data that lie anywhere else stay refused.
func TestHubCache(t *testing.T) {
	dir := t.TempDir()
	blobs, snapshot := filepath.Join(dir, "blobs"), filepath.Join(dir, "snapshots", "1f3a")
	require.NoError(t, os.MkdirAll(filepath.Join(blobs, "deep"), 0o777))
	require.NoError(t, os.MkdirAll(snapshot, 0o777))
	write(t, dir, "secret.bin", eightBytes)
	write(t, blobs, "77aa", eightBytes)
	write(t, blobs, "deep/77bb", eightBytes)
	write(t, blobs, "beside.bin", eightBytes)
	for link, target := range map[string]string{
		"blobs/out": "../secret.bin", "snapshots/1f3a/model.onnx": "../../blobs/00cc",
		"snapshots/1f3a/model.onnx_data": "../../blobs/77aa", "snapshots/1f3a/deep": "../../blobs/deep/77bb",
		"snapshots/1f3a/secret": "../../secret.bin", "snapshots/1f3a/twice": "../../blobs/out",
		"snapshots/1f3a/gone": "../../blobs/none", "snapshots/1f3a/plain": "none",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip("this file system has no symbolic links; set TMPDIR to one that has: ", err)
		}
	}
	for location, want := range map[string]string{
		"model.onnx_data": "", "deep": "", "beside.bin": "", // beside the file itself
		"secret": "leads out of the model's folder", "twice": "leads out of the model's folder",
		"out": "no such file", "gone": "leads out of the model's folder", "plain": "no such file",
	} {
		write(t, blobs, "00cc", fromText(t, "ModelProto", weightModel("location", location)))
		m, closer, err := onnx.Open(filepath.Join(snapshot, "model.onnx"))
		if err == nil {
			var got []byte
			if got, err = weight(m); err == nil {
				assert.Equal(t, eightBytes, got, location)
			}
			require.NoError(t, closer.Close())
		}
		if want == "" {
			require.NoError(t, err, location)
			continue
		}
		require.ErrorContains(t, err, want, location)
	}
}

func TestExternalDataFaults(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w.bin", eightBytes)
	write(t, dir, "../secret.bin", eightBytes)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o777))
	for link, target := range map[string]string{
		"inner": "w.bin", "outer": "../secret.bin", "abs": filepath.Join(dir, "..", "secret.bin"), "up": "..",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip("this file system has no symbolic links; set TMPDIR to one that has: ", err)
		}
	}
	for _, c := range []struct {
		entries []string
		err     string // "" for none
		format  bool
	}{
		{[]string{"location", "w.bin"}, "", false},
		{[]string{"location", "inner"}, "", false},
		{[]string{"location", "./w.bin"}, "", false},
		{[]string{"location", "outer"}, "is a link that leads out of the model's folder", true},
		{[]string{"location", "abs"}, "is a link that leads out of the model's folder", true},
		{[]string{"location", "up/secret.bin"}, "is a link that leads out of the model's folder", true},
		{[]string{"location", "folder"}, "is not a regular file", true},
		{[]string{"location", "absent"}, "no such file", false},
		{[]string{"location", "w.bin", "offset", "1"}, "offset 1 and length 8 reach beyond its 8 bytes", true},
		{[]string{"location", "w.bin", "offset", "9223372036854775807"}, "reach beyond its 8 bytes", true},
	} {
		path := write(t, dir, "m.onnx", fromText(t, "ModelProto", weightModel(c.entries...)))
		m, closer, err := onnx.Open(path) // refuses links already
		var got []byte
		if err == nil {
			got, err = weight(m)
			got = slices.Clone(got) // the mapping goes with the model
			require.NoError(t, closer.Close())
		}
		if c.err == "" {
			require.NoError(t, err, "%v", c.entries)
			assert.Equal(t, eightBytes, got)
			continue
		}
		require.ErrorContains(t, err, c.err, "%v", c.entries)
		assert.Equal(t, c.format, errors.As(err, new(*onnx.FormatError)), "%v: %v", c.entries, err)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestReadStream(t *testing.T) {
	m, err := onnx.Read(strings.NewReader(string(fromText(t, "ModelProto", weightModel("location", "w.bin")))), "-")
	require.NoError(t, err)
	_, err = weight(m)
	require.ErrorContains(t, err, "the model was read from a stream and has no folder")
	require.ErrorAs(t, err, new(*onnx.FormatError))

	_, err = onnx.Read(failingReader{}, "-")
	require.ErrorContains(t, err, "reading the model -: the cable is cut")
}

// TestOpenPipe: what cannot be mapped is read, and has no folder.
func TestOpenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("a pipe is opened by path through /dev/fd, which this system lacks; Linux has it")
	}
	data := fromText(t, "ModelProto", weightModel("location", "w.bin"))
	go func() {
		_, _ = w.Write(data)
		w.Close()
	}()
	m := open(t, path)
	assert.Len(t, m.Graph.Nodes, 1)
	_, err = weight(m)
	require.ErrorContains(t, err, "the model was read from a stream")
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("the cable is cut") }

// TestHugeExternalData opens a model with 10 GB of weights in a sparse file and
// reads the last of them.
func TestHugeExternalData(t *testing.T) {
	dir := t.TempDir()
	const size = 10 << 30
	f, err := os.Create(filepath.Join(dir, "w.bin"))
	require.NoError(t, err)
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Skip("this file system has no sparse files; set TMPDIR to one that has: ", err)
	}
	_, err = f.WriteAt(eightBytes, size-8)
	require.NoError(t, err)
	path := write(t, dir, "m.onnx", fromText(t, "ModelProto", `ir_version: 8 graph {
	  initializer { name: "w" dims: 2 data_type: 1 data_location: EXTERNAL external_data { key: "location" value: "w.bin" } external_data { key: "offset" value: "10737418232" } }
	  initializer { name: "big" dims: 2684354558 data_type: 1 data_location: EXTERNAL external_data { key: "location" value: "w.bin" } } }`))
	m := open(t, path)
	before := resident(t)
	got, err := weight(m)
	require.NoError(t, err)
	assert.Equal(t, eightBytes, got)
	id, _ := m.Graph.Lookup("big")
	big, err := m.Graph.Values[id].Data.Source.Bytes()
	require.NoError(t, err)
	assert.Len(t, big, size-8)
	assert.Less(t, resident(t)-before, int64(16<<20), "mapping weights must not read them")
	require.NoError(t, onnx.WriteFile(filepath.Join(dir, "copy.onnx"), m, onnx.Options{}))
	assert.Less(t, resident(t)-before, int64(16<<20), "writing beside the model must not read weights")
}

// resident returns the process's resident memory where the system tells.
func resident(t *testing.T) int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil || runtime.GOOS != "linux" {
		return 0
	}
	var total, pages int64
	_, err = fmt.Sscan(string(data), &total, &pages)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}
