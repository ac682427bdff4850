package onnx_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"memopt/graph"
	"memopt/graph/onnx"
)

// folder lists the names in a folder.
func folder(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	data := everything(t)
	path := write(t, dir, "m.onnx", data)
	m := open(t, path)
	out := write(t, dir, "out.onnx", []byte("an older output"))
	require.NoError(t, onnx.WriteFile(out, m, onnx.Options{}))
	assert.Equal(t, []string{"m.onnx", "out.onnx"}, folder(t, dir))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.True(t, proto.Equal(decodeMessage(t, "ModelProto", data), decodeMessage(t, "ModelProto", got)))

	var stream bytes.Buffer
	require.NoError(t, onnx.Write(&stream, m))
	assert.Equal(t, got, stream.Bytes())
}

func TestWriteFileSparesItsInputs(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "m.onnx", fromText(t, "ModelProto", weightModel("location", "w.bin")))
	write(t, dir, "w.bin", eightBytes)
	before := folder(t, dir)
	m := open(t, path)
	targets := []string{path, filepath.Join(dir, ".", "m.onnx"), filepath.Join(dir, "w.bin")}
	if os.Symlink("m.onnx", filepath.Join(dir, "link.onnx")) == nil {
		targets = append(targets, filepath.Join(dir, "link.onnx"))
		before = folder(t, dir)
	}
	for _, target := range targets {
		err := onnx.WriteFile(target, m, onnx.Options{})
		require.ErrorIs(t, err, onnx.ErrInput, target)
		require.ErrorContains(t, err, target)
	}
	assert.Equal(t, before, folder(t, dir))
	got, err := weight(m)
	require.NoError(t, err)
	assert.Equal(t, eightBytes, got)

	// The data file that WriteFile would make can be an input as well.
	path = write(t, dir, "n.onnx",
		fromText(t, "ModelProto", replaceOnce(weightModel("location", "out.onnx.data"), "initializer",
			`initializer { name: "inside" dims: 1 data_type: 1 raw_data: "abcd" } initializer`)))
	write(t, dir, "out.onnx.data", eightBytes)
	err = onnx.WriteFile(filepath.Join(dir, "out.onnx"), open(t, path), onnx.Options{ExternalDataThreshold: 1})
	require.ErrorIs(t, err, onnx.ErrInput)
	require.ErrorContains(t, err, "out.onnx.data")
}

// externalOf returns an initializer's external data.
func externalOf(t *testing.T, g *graph.Graph, name string) *graph.External {
	t.Helper()
	id, ok := g.Lookup(name)
	require.True(t, ok)
	require.NotNil(t, g.Values[id].Data.External, name)
	return g.Values[id].Data.External
}

// TestWriteFileElsewhere: an output in another folder takes its weights along,
// wherever they hang, also those in functions and in training_info.
func TestWriteFileElsewhere(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	weights := []byte("0123456789abcdefghijklmnopqrstuv")
	write(t, dir, "weights.bin", weights)
	path := write(t, dir, "m.onnx", everything(t))
	m := open(t, path)
	out := filepath.Join(elsewhere, "out.onnx")
	require.NoError(t, onnx.WriteFile(out, m, onnx.Options{}))
	assert.Equal(t, []string{"out.onnx", "out.onnx.data"}, folder(t, elsewhere))

	got := open(t, out)
	assert.Equal(t, onnx.StructureSHA256(m), onnx.StructureSHA256(got))
	ext := externalOf(t, got.Graph, "ext")
	assert.Equal(t, "out.onnx.data", ext.Location)
	raw, err := got.Graph.Values[got.Graph.Value("ext")].Data.Source.Bytes()
	require.NoError(t, err)
	assert.Equal(t, weights[8:16], raw)
	constant := got.Functions[0].Body.Nodes[2].TensorAttr("value")
	raw, err = constant.Source.Bytes()
	require.NoError(t, err)
	assert.Equal(t, weights[0:8], raw)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	message := view{decodeMessage(t, "ModelProto", data)}
	lr := message.msgs("training_info")[0].msg("algorithm").msgs("initializer")[0]
	assert.Equal(t, "out.onnx.data", lr.msgs("external_data")[0].str("value"))
	side, err := os.ReadFile(out + ".data")
	require.NoError(t, err)
	for _, part := range [][]byte{weights[0:8], weights[8:16], weights[16:24]} {
		assert.True(t, bytes.Contains(side, part), "%s", part)
	}
	text := decodeMessage(t, "ModelProto", data).String()
	assert.Contains(t, text, `"kept"`, "entries of external_data that memopt does not know stay")
	assert.NotContains(t, text, "feed", "the checksum of another file goes")
	assert.NotContains(t, text, "weights.bin")
}

// TestWriteFileSharesMovedBytes: tensors on the same bytes are copied once.
func TestWriteFileSharesMovedBytes(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, dir, "w.bin", eightBytes)
	text := replaceOnce(weightModel("location", "w.bin"), "initializer",
		`initializer { name: "tied" dims: 2 data_type: 6
	  data_location: EXTERNAL external_data { key: "location" value: "w.bin" } } initializer`)
	out := filepath.Join(elsewhere, "out.onnx")
	require.NoError(t, onnx.WriteFile(out, open(t, write(t, dir, "m.onnx", fromText(t, "ModelProto", text))),
		onnx.Options{}))
	data, err := os.ReadFile(out + ".data")
	require.NoError(t, err)
	assert.Equal(t, eightBytes, data)
}

// TestWriteFileCopies: what is copied from file to file is what the model uses, large and small
// tensors of several files in turn, and a file that ends too early is said.
func TestWriteFileCopies(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	files := map[string][]byte{"a.bin": make([]byte, 300_000), "b.bin": make([]byte, 500_000)}
	rng := rand.NewChaCha8([32]byte{1})
	for name, data := range files {
		rng.Read(data)
		write(t, dir, name, data)
	}
	m := &graph.Model{
		IRVersion: 8, Path: filepath.Join(dir, "m.onnx"), Graph: graph.New("g", nil),
		Opsets: []graph.Opset{{Version: 17}},
	}
	want := map[string][]byte{}
	for i, part := range []struct {
		file           string
		offset, length int64
	}{{"a.bin", 7, 200_000}, {"b.bin", 0, 65_536}, {"b.bin", 65_536, 65_535}, {"a.bin", 299_990, 10},
		{"b.bin", 100_001, 399_999}, {"a.bin", 0, 1}} {
		name := fmt.Sprint("t", i)
		want[name] = files[part.file][part.offset : part.offset+part.length]
		_, err := m.Graph.AddInitializer(&graph.TensorData{Name: name, DType: graph.Uint8, Dims: []int64{part.length},
			External: &graph.External{Location: part.file, Offset: part.offset, Length: part.length}})
		require.NoError(t, err)
	}
	require.NoError(t, onnx.WriteFile(m.Path, m, onnx.Options{}))
	m = open(t, m.Path)
	out := filepath.Join(elsewhere, "out.onnx")
	require.NoError(t, onnx.WriteFile(out, m, onnx.Options{}))
	got := open(t, out)
	for name, data := range want {
		raw, err := got.Graph.Values[got.Graph.Value(name)].Data.Source.Bytes()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, raw), name)
	}
	before := folder(t, elsewhere)
	require.NoError(t, os.Truncate(filepath.Join(dir, "b.bin"), 499_999))
	err := onnx.WriteFile(out, m, onnx.Options{})
	require.ErrorContains(t, err, `tensor "t4": `)
	require.ErrorContains(t, err,
		`external data "b.bin": offset 100001 and length 399999 reach beyond its 499999 bytes`)
	assert.Equal(t, before, folder(t, elsewhere))
}

func TestExternalDataThreshold(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "weights.bin", []byte("0123456789abcdefghijklmnopqrstuv"))
	m := open(t, write(t, dir, "m.onnx", everything(t)))
	_, err := m.Graph.AddInitializer(&graph.TensorData{Name: "big", DType: graph.Uint8, Dims: []int64{100_000},
		Source: graph.Raw(bytes.Repeat([]byte("x"), 100_000))})
	require.NoError(t, err)
	out := filepath.Join(dir, "out.onnx")
	require.NoError(t, onnx.WriteFile(out, m, onnx.Options{ExternalDataThreshold: 12}))
	got := open(t, out)
	for _, name := range []string{"w", "floats", "doubles", "int64s", "uint64s", "c128", "big"} {
		ext := externalOf(t, got.Graph, name)
		assert.Equal(t, "out.onnx.data", ext.Location, name)
		assert.Zero(t, ext.Offset%64, name)
		want, err := m.Graph.Values[m.Graph.Value(name)].Data.Source.Bytes()
		require.NoError(t, err)
		raw, err := got.Graph.Values[got.Graph.Value(name)].Data.Source.Bytes()
		require.NoError(t, err)
		assert.Equal(t, want, raw, name)
	}
	assert.Zero(t, externalOf(t, got.Graph, "big").Offset%4096, "large tensors start on a page")
	assert.Equal(t, "weights.bin", externalOf(t, got.Graph, "ext").Location, "what is external in the folder stays")
	for _, name := range []string{"int32s", "strings", "scalar", "stripped"} {
		assert.Nil(t, got.Graph.Values[got.Graph.Value(name)].Data.External, name)
	}
}

func TestWriteFileFaults(t *testing.T) {
	dir := t.TempDir()
	m := open(t, write(t, dir, "m.onnx", fromText(t, "ModelProto", weightModel("location", "absent.bin"))))
	elsewhere := t.TempDir()

	err := onnx.WriteFile(filepath.Join(elsewhere, "out.onnx"), m, onnx.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, `tensor "w"`)
	assert.Empty(t, folder(t, elsewhere), "a failed write leaves nothing")

	err = onnx.WriteFile(filepath.Join(elsewhere, "no", "such", "out.onnx"), m, onnx.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)

	err = onnx.WriteFile(elsewhere, m, onnx.Options{})
	require.ErrorContains(t, err, "is a directory")

	stream, err := onnx.Read(strings.NewReader(string(fromText(t, "ModelProto", weightModel("location", "w.bin")))),
		"-")
	require.NoError(t, err)
	err = onnx.WriteFile(filepath.Join(elsewhere, "out.onnx"), stream, onnx.Options{})
	require.ErrorContains(t, err, "read from a stream")
	assert.Empty(t, folder(t, elsewhere))
}

func TestWriteToDevice(t *testing.T) {
	m := decodeText(t, `ir_version: 8 graph { }`)
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("a full disk is played by /dev/full, which this system lacks; Linux has it")
	}
	require.NoError(t, onnx.WriteFile("/dev/null", m, onnx.Options{}))
	info, err := os.Stat("/dev/null")
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular(), "a device must not be replaced by a file")
	require.ErrorContains(t, onnx.WriteFile("/dev/full", m, onnx.Options{}), "no space left on device")
}

// shortWriter takes n bytes and then fails, or takes less than it is given.
type shortWriter struct {
	n   int
	err error
}

func (w *shortWriter) Write(p []byte) (int, error) {
	if len(p) <= w.n {
		w.n -= len(p)
		return len(p), nil
	}
	n := w.n
	w.n = 0
	return n, w.err
}

func TestWriteReportsFullDisk(t *testing.T) {
	m := decodeText(t, `ir_version: 8 graph { initializer { name: "w" data_type: 2 dims: 3000000 } }`)
	m.Graph.Values[0].Data.Wire = nil
	m.Graph.Values[0].Data.Source = graph.Raw(make([]byte, 3_000_000))
	full := errors.New("disk full")
	for _, n := range []int{0, 10, 2_000_000} {
		require.ErrorIs(t, onnx.Write(&shortWriter{n, full}, m), full)
		require.Error(t, onnx.Write(&shortWriter{n, nil}, m), "a short write without an error")
	}
}
