package npz_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/npz"
	"memopt/graph"
)

// samples has an array of every type, and the odd shapes.
func samples() []npz.Array {
	return []npz.Array{
		{"f4", executor.NewTensor[float32](graph.Float32, []int{2, 3}, 1, -2, 3.5, 0, 1e30, -0)},
		{"f8", executor.NewTensor[float64](graph.Float64, []int{3}, 1, 2, 3)},
		{"f2", executor.NewTensor[uint16](graph.Float16, []int{2}, 0x3c00, 0xc000)},
		{"b", executor.NewTensor[uint8](graph.Bool, []int{2, 1}, 0, 1)},
		{"i1", executor.NewTensor[int8](graph.Int8, []int{1}, -5)},
		{"i2", executor.NewTensor[int16](graph.Int16, []int{1, 1, 2}, -5, 300)},
		{"i4", executor.NewTensor[int32](graph.Int32, []int{1}, -70000)},
		{"i8", executor.NewTensor[int64](graph.Int64, []int{2}, -1<<40, 7)},
		{"u1", executor.NewTensor[uint8](graph.Uint8, []int{1}, 200)},
		{"u2", executor.NewTensor[uint16](graph.Uint16, []int{1}, 60000)},
		{"u4", executor.NewTensor[uint32](graph.Uint32, []int{1}, 4e9)},
		{"u8", executor.NewTensor[uint64](graph.Uint64, []int{1}, 1<<63)},
		{"scalar", executor.NewTensor[float32](graph.Float32, []int{}, 42)},
		{"empty", executor.NewTensor[float32](graph.Float32, []int{0, 4})},
		{"dir/a b", executor.NewTensor[float32](graph.Float32, []int{1}, 1)},
	}
}

func write(t *testing.T, path string, arrays []npz.Array) {
	t.Helper()
	w, err := npz.Create(path)
	require.NoError(t, err)
	for _, a := range arrays {
		require.NoError(t, w.Add(a.Name, a.Tensor))
	}
	require.NoError(t, w.Close())
}

func assertSame(t *testing.T, want, got *executor.Tensor, name string) {
	t.Helper()
	assert.Equal(t, want.DType, got.DType, name)
	assert.Equal(t, want.Shape, got.Shape, name)
	assert.True(t, bytes.Equal(want.Data, got.Data), name)
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	write(t, path, samples())
	got, err := npz.Read(path)
	require.NoError(t, err)
	require.Len(t, got, len(samples()))
	for i, want := range samples() {
		assert.Equal(t, want.Name, got[i].Name)
		assertSame(t, want.Tensor, got[i].Tensor, want.Name)
	}
}

// python returns an interpreter with numpy.
func python(t *testing.T) string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import numpy").Run() == nil {
			return name
		}
	}
	t.Skip("no python3 with numpy: apt-get install python3-numpy brings it")
	return ""
}

// TestNumpy lets numpy read what is written here and write it anew in several ways.
func TestNumpy(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.npz"), samples())
	script := `
import numpy as np, sys
a = np.load("a.npz")
kinds = dict(f4="<f4", f8="<f8", f2="<f2", b="|b1", i1="|i1", i2="<i2", i4="<i4", i8="<i8", u1="|u1", u2="<u2", u4="<u4", u8="<u8")
for k, d in kinds.items():
    assert a[k].dtype.str == d, (k, a[k].dtype)
assert a["f4"].tolist()[1][0] == 0 and a["f4"].shape == (2, 3) and a["scalar"] == 42 and a["empty"].shape == (0, 4)
assert a["i2"].tolist() == [[[-5, 300]]] and a["b"].tolist() == [[False], [True]]
np.savez("plain.npz", **a)
np.savez_compressed("packed.npz", **a)
np.savez("swapped.npz", **{k: v.astype(v.dtype.newbyteorder(">")) for k, v in a.items()})
x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
np.savez("fortran.npz", x=np.asfortranarray(x))
np.save("single.npy", x)
`
	cmd := exec.Command(python(t), "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, name := range []string{"plain.npz", "packed.npz", "swapped.npz"} {
		got, err := npz.Read(filepath.Join(dir, name))
		require.NoError(t, err, name)
		for i, want := range samples() {
			assert.Equal(t, want.Name, got[i].Name)
			assertSame(t, want.Tensor, got[i].Tensor, name+" "+want.Name)
		}
		assertView(t, filepath.Join(dir, name), got)
	}
	for _, name := range []string{"fortran.npz", "single.npy"} {
		got, err := npz.Read(filepath.Join(dir, name))
		require.NoError(t, err, name)
		require.Len(t, got, 1)
		assertView(t, filepath.Join(dir, name), got)
		assert.Equal(t, []int{2, 3, 4}, got[0].Shape)
		for i, v := range executor.Of[int32](got[0].Tensor) {
			assert.Equal(t, int32(i), v, name)
		}
	}
}

// assertView: View finds in a file's contents what Read reads.
func assertView(t *testing.T, path string, want []npz.Array) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := npz.View(data, nil)
	require.NoError(t, err, path)
	require.Len(t, got, len(want))
	for i, a := range want {
		assert.Equal(t, a.Name, got[i].Name)
		assertSame(t, a.Tensor, got[i].Tensor, a.Name)
	}
}

// TestView: what is stored is shown where it lies, only what is wanted is looked at, and what lies
// behind the file's end is an error.
func TestView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	write(t, path, samples())
	assertView(t, path, samples())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := npz.View(data, func(name string) bool { return name == "u1" })
	require.NoError(t, err)
	require.Len(t, got, 1)
	at := bytes.IndexByte(data, 200)
	require.Same(t, &data[at], &got[0].Data[0])
	stored := func(e zip.FileHeader) []byte {
		e.Name, e.Comment = "a.npy", string(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", 1, 2))
		return archive(t, e)
	}
	cut := stored(zip.FileHeader{})
	cut[bytes.Index(cut, []byte("(2,)"))+1] = '3'
	for _, c := range []struct {
		want string
		file []byte
	}{
		{"an array of uint8[3] has 2 bytes, wanted 3", cut},
		{"the file ends before its 9 bytes", stored(zip.FileHeader{UncompressedSize64: 9})},
		{"not a .npy file", archive(t, zip.FileHeader{Name: "a.npy", Comment: "text"})},
		{"neither a .npz nor a .npy file", []byte("text")},
		{"cut off in the header", cut[bytes.Index(cut, []byte("\x93NUMPY")):][:20]},
	} {
		_, err := npz.View(c.file, nil)
		assert.ErrorContains(t, err, c.want)
	}
}

func TestWriterLeavesNothingAfterAnError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npz")
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o666))
	w, err := npz.Create(path)
	require.NoError(t, err)
	x := executor.NewTensor[uint16](graph.BFloat16, []int{1}, 1)
	require.ErrorContains(t, w.Add("x", x), "numpy has no type for bfloat16")
	require.ErrorContains(t, w.Close(), "bfloat16")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "before", string(data))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, list, 1)
}

func TestWriterRefusesDoubles(t *testing.T) {
	w, err := npz.Create(filepath.Join(t.TempDir(), "x.npz"))
	require.NoError(t, err)
	x := executor.NewTensor[uint8](graph.Uint8, []int{1}, 1)
	require.NoError(t, w.Add("x", x))
	require.ErrorContains(t, w.Add("x", x), "already")
	require.Error(t, w.Close())
}

// npy makes a .npy file of version 1.
func npy(header string, data ...byte) []byte {
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return append(append(out, header...), data...)
}

func TestHostileArrays(t *testing.T) {
	const good = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }"
	for _, c := range []struct{ name, file, want string }{
		{"empty", "", "not a .npy file"},
		{"no magic", "0123456789ab", "it starts with"},
		{"version 9", "\x93NUMPY\x09\x00\x01\x00\n\n\n", "version 9"},
		{"long header", "\x93NUMPY\x02\x00\xff\xff\xff\x7f{}", "the header has 2147483647 bytes"},
		{"header cut off", string(npy(good)[:20]), "cut off in the header"},
		{"data cut off", string(npy(good, 1)), "cut off after 1 of 2 bytes"},
		{"too much data", string(npy(good, 1, 2, 3)), "more than 2 bytes"},
		{"large promise", string(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }", 1, 2)),
			"cut off after 2 of 799999999992 bytes"},
		{"overflow", string(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }")),
			"too large"},
		{"huge dim", string(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, ), }")),
			"wanted a dim"},
		{"negative dim", string(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, ), }")), "wanted a dim"},
		{"overflow before 0",
			string(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0), }")),
			"too large"},
		{"many dims", string(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + strings.Repeat("1,", 65) +
			"), }")), "more than 64 dims"},
		{"objects", string(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }")), `"|O" are not supported`},
		{"structure", string(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }")),
			"wanted a string"},
		{"key twice", string(npy("{'descr': '|u1', 'descr': '|u1', 'shape': (1,), }")), "twice"},
		{"key missing", string(npy("{'descr': '|u1', 'shape': (1,), }", 1)), "wanted the keys"},
		{"unknown key", string(npy("{'descr': '|u1', 'x': (1,), }", 1)), `key "x"`},
		{"text behind", string(npy(good+" x", 1, 2)), "behind the dictionary"},
		{"bad bool", string(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", 2)), "bool 0 is 2"},
	} {
		_, err := npz.ReadArray(strings.NewReader(c.file))
		assert.ErrorContains(t, err, c.want, c.name)
	}
}

// archive makes a zip file of raw entries with sizes of the caller's choice.
func archive(t testing.TB, entries ...zip.FileHeader) []byte {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, e := range entries {
		data := []byte(e.Comment)
		e.Comment = ""
		if e.CompressedSize64 == 0 {
			e.CompressedSize64 = uint64(len(data))
		}
		if e.UncompressedSize64 == 0 {
			e.UncompressedSize64 = uint64(len(data))
		}
		e.CRC32 = crc32.ChecksumIEEE(data)
		w, err := z.CreateRaw(&e)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return buf.Bytes()
}

func TestHostileArchives(t *testing.T) {
	good := string(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", 1, 2))
	bomb := string(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000,), }", 1, 2))
	path := filepath.Join(t.TempDir(), "x.npz")
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"no zip", "neither a .npz nor a .npy file", []byte("hello")},
		{"name twice", "two arrays",
			archive(t, zip.FileHeader{Name: "a.npy", Comment: good}, zip.FileHeader{Name: "a.npy", Comment: good})},
		{"claims much", "cannot unpack",
			archive(t, zip.FileHeader{Name: "a.npy", Comment: bomb, UncompressedSize64: 1e9, Method: zip.Deflate})},
		{"header promises more", "has 2 bytes, wanted 1000000000",
			archive(t, zip.FileHeader{Name: "a.npy", Comment: bomb})},
		{"larger than the file", "more bytes than the file",
			archive(t, zip.FileHeader{Name: "a.npy", Comment: good, CompressedSize64: 1e9, UncompressedSize64: 1e9})},
		{"cut off", "neither", archive(t, zip.FileHeader{Name: "a.npy", Comment: good})[:40]},
	} {
		require.NoError(t, os.WriteFile(path, c.file, 0o666))
		_, err := npz.Read(path)
		assert.ErrorContains(t, err, c.want, c.name)
	}
}

// FuzzRead looks for files that make Read panic or that it reads and cannot write again.
func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "x.npz")
	w, err := npz.Create(path)
	require.NoError(f, err)
	for _, a := range samples() {
		require.NoError(f, w.Add(a.Name, a.Tensor))
		var one bytes.Buffer
		require.NoError(f, npz.WriteArray(&one, a.Tensor))
		f.Add(one.Bytes())
	}
	require.NoError(f, w.Close())
	whole, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(whole)
	f.Add(npy("{'descr': '>i4', 'fortran_order': True, 'shape': (2, 1), }", binary.BigEndian.AppendUint64(nil, 5)...))
	f.Add(archive(f, zip.FileHeader{Name: "a.npy", Comment: "\x93NUMPY", UncompressedSize64: 1e9, Method: zip.Deflate}))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(path, data, 0o666))
		views, verr := npz.View(data, nil)
		arrays, err := npz.Read(path)
		if err != nil {
			return
		}
		require.NoError(t, verr)
		require.Len(t, views, len(arrays))
		for i, a := range arrays {
			assertSame(t, a.Tensor, views[i].Tensor, a.Name)
		}
		write(t, path, arrays)
		again, err := npz.Read(path)
		require.NoError(t, err)
		require.Len(t, again, len(arrays))
		for i, a := range arrays {
			assertSame(t, a.Tensor, again[i].Tensor, a.Name)
		}
	})
}
