package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/mapfile"
	"memopt/internal/memlimit"
	_ "memopt/internal/test/rapidflags"
	"memopt/train/safetensors"
)

// TestBytes: a file is, byte by byte, what the format's documentation and the order of the reference
// implementation say, whatever the order of the entries.
func TestBytes(t *testing.T) {
	entries := []safetensors.Entry{
		{Name: "b", DType: graph.Uint8, Shape: []int{3}},
		{Name: "w", DType: graph.Float32, Shape: []int{1, 2}},
		{Name: "a", DType: graph.Float32, Shape: []int{}},
		{Name: "none", DType: graph.Int64, Shape: []int{0, 7}},
	}
	contents := map[string]string{"b": "\x01\x02\x03", "w": "wwwwvvvv", "a": "aaaa", "none": ""}
	const header = `{"__metadata__":{"k":"v\"<","l":"x"},"none":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]},` +
		`"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},` +
		`"b":{"dtype":"U8","shape":[3],"data_offsets":[12,15]}}`
	require.Equal(t, 257, len(header))
	want := append([]byte{264 & 255, 264 >> 8, 0, 0, 0, 0, 0, 0}, header...)
	want = append(want, "       aaaawwwwvvvv\x01\x02\x03"...)
	for range entries {
		entries = append(entries[1:], entries[0])
		var out bytes.Buffer
		require.NoError(t, safetensors.Write(&out, entries, map[string]string{"l": "x", "k": `v"<`},
			func(i int, dst []byte) error {
				require.Len(t, dst, copy(dst, contents[entries[i].Name]))
				return nil
			}))
		require.Equal(t, string(want), out.String())
	}
	path := filepath.Join(t.TempDir(), "a.safetensors")
	require.NoError(t, os.WriteFile(path, want, 0o666))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, map[string]string{"k": `v"<`, "l": "x"}, f.Metadata())
	for _, e := range entries {
		got, ok := f.Tensor(e.Name)
		require.True(t, ok)
		require.Equal(t, e, safetensors.Entry{Name: e.Name, DType: got.DType, Shape: got.Shape})
		require.Equal(t, contents[e.Name], string(got.Data))
	}
	_, ok := f.Tensor("c")
	require.False(t, ok)
}

// tensor is one of a file, with its contents.
type tensor struct {
	safetensors.Entry
	data []byte
}

// encode writes tensors.
func encode(t require.TestingT, list []tensor, metadata map[string]string) []byte {
	var entries []safetensors.Entry
	for _, x := range list {
		entries = append(entries, x.Entry)
	}
	var out bytes.Buffer
	require.NoError(t, safetensors.Write(&out, entries, metadata, func(i int, dst []byte) error {
		require.Len(t, dst, copy(dst, list[i].data))
		return nil
	}))
	return out.Bytes()
}

// write writes a file.
func write(t testing.TB, dir string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, "x.safetensors")
	require.NoError(t, os.WriteFile(path, data, 0o666))
	return path
}

var dtypes = []graph.DType{graph.Float64, graph.Float32, graph.Float16, graph.BFloat16, graph.Int64, graph.Int32,
	graph.Int16, graph.Int8, graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64, graph.Bool}

// drawTensors draws the tensors of a file, of all types, with names of all kinds.
func drawTensors(r *rapid.T) (list []tensor) {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z./"\\<é\x01]{0,6}`), 0, 8, rapid.ID[string]).Draw(r, "names")
	for _, name := range names {
		x := tensor{Entry: safetensors.Entry{Name: name, DType: rapid.SampledFrom(dtypes).Draw(r, "dtype"),
			Shape: rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(r, "shape")}}
		n, ok := executor.Bytes(x.DType, x.Shape)
		require.True(r, ok)
		top := byte(255)
		if x.DType == graph.Bool {
			top = 1
		}
		x.data = rapid.SliceOfN(rapid.ByteMax(top), n, n).Draw(r, "data")
		list = append(list, x)
	}
	return list
}

// decoded is a tensor as a header of plain JSON describes it.
type decoded struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// sizes are the bytes of an element by the format's names.
var sizes = map[string]int{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
	"U16": 2, "U32": 4, "U64": 8, "BOOL": 1}

// TestRoundTrip: what is written is read again; a second decoder, made of the format's documentation
// alone, reads the same, and contents are aligned to their elements.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		list := drawTensors(r)
		metadata := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(r, "metadata")
		data := encode(r, list, metadata)
		f, err := safetensors.Open(write(t, dir, data))
		require.NoError(r, err)
		defer f.Close()
		length := int(binary.LittleEndian.Uint64(data))
		require.Zero(r, length%8)
		var header map[string]json.RawMessage
		require.NoError(r, json.Unmarshal(data[8:8+length], &header))
		if len(metadata) > 0 {
			var got map[string]string
			require.NoError(r, json.Unmarshal(header["__metadata__"], &got))
			require.Equal(r, metadata, got)
			require.Equal(r, metadata, f.Metadata())
			delete(header, "__metadata__")
		}
		require.Len(r, header, len(list))
		require.Len(r, f.Entries(), len(list))
		for _, x := range list {
			got, ok := f.Tensor(x.Name)
			require.True(r, ok)
			require.Equal(r, x.Entry, safetensors.Entry{Name: x.Name, DType: got.DType, Shape: got.Shape})
			require.True(r, bytes.Equal(x.data, got.Data))
			var d decoded
			require.NoError(r, json.Unmarshal(header[x.Name], &d))
			require.Equal(r, x.Shape, d.Shape)
			require.Zero(r, d.Offsets[0]%sizes[d.DType])
			require.Equal(r, x.DType.Bits()/8, sizes[d.DType])
			require.True(r, bytes.Equal(x.data, data[8+length+d.Offsets[0]:8+length+d.Offsets[1]]))
		}
		slices.Reverse(list)
		require.Equal(r, data, encode(r, list, metadata))
	})
}

// decoder is a decoder in Python that knows nothing but the format's documentation.
const decoder = `
import json, struct, sys
import numpy as np
kinds = dict(F64="<f8", F32="<f4", F16="<f2", BF16="<u2", I64="<i8", I32="<i4", I16="<i2", I8="|i1",
             U8="|u1", U16="<u2", U32="<u4", U64="<u8", BOOL="|b1")
raw = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8:8 + n])
assert header.pop("__metadata__") == {"format": "test"}
end = 0
for name, t in header.items():
    begin, stop = t["data_offsets"]
    assert begin == end
    end = stop
    a = np.frombuffer(raw[8 + n + begin:8 + n + stop], kinds[t["dtype"]]).reshape(t["shape"])
    print(name, t["dtype"], list(a.shape), a.tolist())
assert 8 + n + end == len(raw)
`

// TestPython: numpy reads the elements of every type.
func TestPython(t *testing.T) {
	list := []tensor{
		{safetensors.Entry{Name: "f8", DType: graph.Float64, Shape: []int{2}}, executor.Memory([]float64{1.5, -2})},
		{safetensors.Entry{Name: "f4", DType: graph.Float32, Shape: []int{1, 3}},
			executor.Memory([]float32{1, 2, -0.5})},
		{safetensors.Entry{Name: "f2", DType: graph.Float16, Shape: []int{1}}, []byte{0, 0x3c}},
		{safetensors.Entry{Name: "bf", DType: graph.BFloat16, Shape: []int{1}}, []byte{0x80, 0x3f}},
		{safetensors.Entry{Name: "i8", DType: graph.Int64, Shape: []int{}}, executor.Memory([]int64{-9})},
		{safetensors.Entry{Name: "i4", DType: graph.Int32, Shape: []int{2}}, executor.Memory([]int32{-9, 70000})},
		{safetensors.Entry{Name: "i2", DType: graph.Int16, Shape: []int{1}}, executor.Memory([]int16{-300})},
		{safetensors.Entry{Name: "i1", DType: graph.Int8, Shape: []int{1}}, executor.Memory([]int8{-3})},
		{safetensors.Entry{Name: "u1", DType: graph.Uint8, Shape: []int{0, 2}}, nil},
		{safetensors.Entry{Name: "u2", DType: graph.Uint16, Shape: []int{1}}, executor.Memory([]uint16{65535})},
		{safetensors.Entry{Name: "u4", DType: graph.Uint32, Shape: []int{1}}, executor.Memory([]uint32{1 << 31})},
		{safetensors.Entry{Name: "u8", DType: graph.Uint64, Shape: []int{1}}, executor.Memory([]uint64{1 << 63})},
		{safetensors.Entry{Name: "b", DType: graph.Bool, Shape: []int{2}}, []byte{0, 1}},
	}
	path := write(t, t.TempDir(), encode(t, list, map[string]string{"format": "test"}))
	python := ""
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import numpy").Run() == nil {
			python = name
		}
	}
	if python == "" {
		t.Skip("no python3 with numpy: apt-get install python3-numpy brings it")
	}
	out, err := exec.Command(python, "-c", decoder, path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, `u8 U64 [1] [9223372036854775808]
i8 I64 [] -9
f8 F64 [2] [1.5, -2.0]
f4 F32 [1, 3] [[1.0, 2.0, -0.5]]
u4 U32 [1] [2147483648]
i4 I32 [2] [-9, 70000]
bf BF16 [1] [16256]
f2 F16 [1] [1.0]
u2 U16 [1] [65535]
i2 I16 [1] [-300]
i1 I8 [1] [-3]
u1 U8 [0, 2] []
b BOOL [2] [False, True]
`, string(out))
}

// file makes a file of a header and contents.
func file(header, contents string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+contents...)
}

// TestFaults: files that break the format's rules are refused, and the error says which rule.
func TestFaults(t *testing.T) {
	one := func(rest string) string { return `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}` + rest + "}" }
	long := binary.LittleEndian.AppendUint64(nil, 100_000_001)
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "not a safetensors file: it has 0 bytes"},
		{[]byte("{}"), "not a safetensors file: it has 2 bytes"},
		{long, "the header's length is said to be 100000001 bytes; wanted at most 100000000"},
		{bytes.Repeat([]byte{255}, 20), "not a safetensors file"},
		{file(one(""), "xy")[:20], "the header is said to have 53 bytes, and the file has 12 behind its length"},
		{file(one(""), "x"), "1 bytes follow the header; its tensors have 2: the file is cut off"},
		{file(one(""), "xyz"), "3 bytes follow the header; its tensors have 2"},
		{file("", ""), `header: begins with ""`},
		{file(" {}", ""), `header: begins with " {}"; wanted {`},
		{file("[]", ""), `begins with "[]"`},
		{file("{}{}", ""), "something follows its JSON object"},
		{file("{} x", ""), "something follows its JSON object"},
		{file(`{"a"`, ""), "unexpected EOF"},
		{file("{\"\xff\":1}", ""), "it is not UTF-8"},
		{file(`{"a":1}`, ""), `tensor "a" is "1"; wanted {`},
		{file(`{"a":{}}`, ""), `tensor "a" lacks dtype, shape or data_offsets`},
		{file(one(`,"a":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}`), "xy"), `"a" stands there twice`},
		{file(one(`,"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}`), "xy"),
			`tensors "a" and "b" overlap: the second begins at byte 1, the first ends at byte 2`},
		{file(one(`,"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}`), "xyzz"),
			`tensor "b" begins at byte 3; wanted 2, where the one before it ends`},
		{file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "xyz"), `tensor "a" begins at byte 1; wanted 0`},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}}`, "1234567"), `tensor "a" has 7 bytes; float[2] has 8`},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, "12345678"), "data_offsets are [8 0]"},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}}`, ""), "data_offsets are [0]"},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}}`, ""), "more than two numbers"},
		{file(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, ""), "wanted a whole number from 0 to 2^63-1"},
		{file(`{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}`, ""), `has "2.0"; wanted a whole number`},
		{file(`{"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}}`, ""), "wanted a whole number"},
		{file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, ""), "more than 2^62 bytes"},
		{file(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, "x"), `tensor "a" has dtype "F4"; memopt reads BOOL, U8`},
		{file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"more":1}}`, "xy"), `tensor "a": more is no field of a tensor`},
		{file(`{"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "xy"), `dtype stands there twice`},
		{file(`{"__metadata__":{"a":1}}`, ""), `wanted a string`},
		{file(`{"__metadata__":{"a":"1","a":"2"}}`, ""), `"a" stands there twice`},
		{file(`{"__metadata__":{},"__metadata__":{}}`, ""), `"__metadata__" stands there twice`},
		{file(`{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}`, "\x01\x02"), `tensor "a": bool 1 is 2; wanted 0 or 1`},
	} {
		path := write(t, t.TempDir(), c.data)
		_, err := safetensors.Open(path)
		require.ErrorContains(t, err, c.want, "%q", c.data)
		require.ErrorContains(t, err, path+": ")
	}
	_, err := safetensors.Open(t.TempDir())
	require.ErrorContains(t, err, "is a directory")
	defer memlimit.Pretend(1 << 20)()
	_, err = safetensors.Open(write(t, t.TempDir(), file(`{"a":`+strings.Repeat(" ", 1<<20), "")))
	require.ErrorIs(t, err, memlimit.ErrOutOfMemory)
}

// TestWriteFaults: what the format cannot hold is refused before anything is written.
func TestWriteFaults(t *testing.T) {
	u8 := func(name string) safetensors.Entry { return safetensors.Entry{Name: name, DType: graph.Uint8} }
	broken := errors.New("broken")
	for want, entries := range map[string][]safetensors.Entry{
		`tensor "a" has type string, which safetensors has no name for`: {{Name: "a", DType: graph.String}},
		`shape [-1] has a negative dim`:                                 {{Name: "a", DType: graph.Int8, Shape: []int{-1}}},
		`two tensors are called "b"`:                                    {u8("b"), u8("a"), u8("b")},
		`a tensor is called "__metadata__"`:                             {u8("__metadata__")},
		`is not UTF-8`:                                                  {u8("\xff")},
		`tensor "a": broken`:                                            {u8("a")},
		"out of memory": {
			{Name: "a", DType: graph.Uint8, Shape: []int{1 << 40}}},
	} {
		var out bytes.Buffer
		err := safetensors.Write(&out, entries, nil, func(int, []byte) error { return broken })
		require.ErrorContains(t, err, want)
		require.True(t, out.Len() == 0 || errors.Is(err, broken) || errors.Is(err, memlimit.ErrOutOfMemory), want)
	}
	err := safetensors.Write(&bytes.Buffer{}, nil, map[string]string{"a": "\xff"}, nil)
	require.ErrorContains(t, err, "is not UTF-8")
	err = safetensors.Write(failing{}, nil, nil, nil)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// failing is a writer that fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestShrinks: a file that becomes shorter while it is open is an error where it is asked for.
func TestShrinks(t *testing.T) {
	path := write(t, t.TempDir(), file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "xy"))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Check())
	require.NoError(t, os.Truncate(path, 10))
	var changed *mapfile.ChangedError
	require.ErrorAs(t, f.Check(), &changed)
}

// FuzzOpen looks for files that make Open panic, or that are read and, written again, are others.
func FuzzOpen(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "xy"))
	f.Add(file(`{"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},`+
		`"a":{"dtype":"BOOL","shape":[1,2],"data_offsets":[4,6]}}  `, "abcd\x00\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := safetensors.Open(write(t, t.TempDir(), data))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		defer got.Close()
		var list []tensor
		for _, e := range got.Entries() {
			x, ok := got.Tensor(e.Name)
			require.True(t, ok)
			list = append(list, tensor{e, x.Data})
		}
		again, err := safetensors.Open(write(t, t.TempDir(), encode(t, list, got.Metadata())))
		require.NoError(t, err)
		defer again.Close()
		require.Len(t, again.Entries(), len(list))
		for _, x := range list {
			y, ok := again.Tensor(x.Name)
			require.True(t, ok)
			require.True(t, bytes.Equal(x.data, y.Data))
			require.Equal(t, x.DType, y.DType)
			require.Equal(t, x.Shape, y.Shape)
		}
	})
}
