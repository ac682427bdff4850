package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/executor/npz"
	"memopt/graph"
	"memopt/internal/fileio"
)

// pair has an input of floats and one of labels.
func pair(classes int64, dims ...int) []Input {
	return []Input{
		{Name: "x", DType: graph.Float32, Shape: dims, Batched: true},
		{Name: "labels", DType: graph.Int64, Batched: true, Classes: classes, Ignore: -100, HasIgnore: true},
	}
}

// floats and labels of n samples of two elements, numbered from a number on.
func floats(from, n int) *executor.Tensor {
	values := make([]float32, 2*n)
	for i := range values {
		values[i] = float32(2*from+i) + 0.5
	}
	return executor.NewTensor(graph.Float32, []int{n, 2}, values...)
}

func labels(from, n int) *executor.Tensor {
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(from + i)
	}
	return executor.NewTensor(graph.Int64, []int{n}, values...)
}

func writeNpy(t *testing.T, path string, x *executor.Tensor) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, npz.WriteArray(&b, x))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o666))
	return path
}

func writeNpz(t *testing.T, path string, arrays ...npz.Array) string {
	t.Helper()
	w, err := npz.Create(path)
	require.NoError(t, err)
	for _, a := range arrays {
		require.NoError(t, w.Add(a.Name, a.Tensor))
	}
	require.NoError(t, w.Close())
	return path
}

// assertNumbered: sample i of s is that of floats(0, n) and labels(0, n).
func assertNumbered(t *testing.T, s Source, n int) {
	t.Helper()
	require.EqualValues(t, n, s.Samples())
	require.NoError(t, s.Check(context.Background()))
	for i := range n {
		b := batchOf(t, s, int64(i), int64((i+1)%n), int64(i+5*n))
		want := append(append(executor.Of[float32](floats(i, 1)), executor.Of[float32](floats((i+1)%n, 1))...),
			executor.Of[float32](floats(i, 1))...)
		require.Equal(t, want, executor.Of[float32](b[0]))
		require.Equal(t, []int64{int64(i), int64((i + 1) % n), int64(i)}, int64s(b[1]))
	}
}

// TestTables reads the same samples from every arrangement of files.
func TestTables(t *testing.T) {
	dir := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	writeNpy(t, in("whole", "x.npy"), floats(0, 7))
	writeNpy(t, in("whole", "labels.npy"), labels(0, 7))
	writeNpy(t, in("whole", "other.npy"), labels(0, 3))
	for i, n := range [][2]int{{0, 3}, {3, 0}, {3, 4}} {
		writeNpy(t, in("parts", fmt.Sprint(i), "x.npy"), floats(n[0], n[1]))
		writeNpy(t, in("parts", fmt.Sprint(i), "labels.npy"), labels(n[0], n[1]))
		set := []dataset.Named{{Name: "x", Tensor: floats(n[0], n[1])}, {Name: "labels", Tensor: labels(n[0], n[1])}}
		for j, d := range set {
			folder := in("sets", fmt.Sprintf("test_data_set_%d", 9+i))
			require.NoError(t, dataset.WriteDir(folder, []dataset.Named{d}, &fileio.Ledger{}))
			require.NoError(t, os.Rename(filepath.Join(folder, dataset.FileName(d.Name)),
				filepath.Join(folder, fmt.Sprintf("input_%d.pb", j))))
			nameless := in("nameless", fmt.Sprintf("test_data_set_%d", i))
			require.NoError(t, dataset.WriteDir(nameless, []dataset.Named{{Tensor: d.Tensor}}, &fileio.Ledger{}))
			require.NoError(t, os.Rename(filepath.Join(nameless, dataset.FileName("")),
				filepath.Join(nameless, fmt.Sprintf("input_%d.pb", j))))
		}
	}
	writeNpy(t, in("numbered", "arr_1.npy"), labels(0, 7))
	writeNpy(t, in("numbered", "arr_0.npy"), floats(0, 7))
	writeNpy(t, in("images.npy"), floats(0, 7))
	writeNpy(t, in("a", "x.npy"), floats(0, 2))
	writeNpy(t, in("b", "x.npy"), floats(2, 5))
	one := writeNpz(t, in("one.npz"), npz.Array{Name: "labels", Tensor: labels(0, 7)},
		npz.Array{Name: "z", Tensor: labels(0, 1)}, npz.Array{Name: "x", Tensor: floats(0, 7)})
	plain := writeNpz(t, in("plain.npz"), npz.Array{Name: "arr_0", Tensor: floats(0, 7)},
		npz.Array{Name: "arr_1", Tensor: labels(0, 7)})
	var records []byte
	for i := range 7 {
		records = append(append(append(records, byte(i)), 0xee), floats(i, 1).Data...)
	}
	require.NoError(t, os.WriteFile(in("r1.dat"), records[:30], 0o666))
	require.NoError(t, os.WriteFile(in("r2.dat"), records[30:], 0o666))
	record := Options{Record: "labels:uint8,_:int8,x:float[2]"}
	renamed := Options{Names: map[string]string{"x": "images"}}
	for _, c := range []struct {
		name  string
		paths []string
		o     Options
	}{
		{"folder", []string{in("whole")}, Options{}},
		{"folders", []string{in("parts", "0"), in("parts", "1"), in("parts", "2")}, Options{}},
		{"glob of folders", []string{in("parts", "*")}, Options{}},
		{"files", []string{in("whole", "x.npy"), in("whole", "labels.npy")}, Options{}},
		{"named files", []string{"labels=" + in("whole", "labels.npy"), "x=" + in("images.npy")}, Options{}},
		{"renamed file", []string{in("whole", "labels.npy"), in("images.npy")}, renamed},
		{"several files of one input", []string{in("a", "x.npy"), in("whole", "labels.npy"), in("b", "x.npy")},
			Options{}},
		{"named glob", []string{"x=" + in("[ab]", "x.npy"), in("whole", "labels.npy")}, Options{}},
		{"numbered files", []string{in("numbered")}, Options{}},
		{"archive", []string{one}, Options{}},
		{"numbered archive", []string{plain}, Options{}},
		{"sets", []string{in("sets")}, Options{}},
		{"sets of tensors without names", []string{in("nameless")}, Options{}},
		{"single sets", []string{in("sets", "test_data_set_9"), in("sets", "test_data_set_11")}, Options{}},
		{"records", []string{in("r1.dat"), in("r2.dat")}, record},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, c.paths, pair(8, 2), c.o)
			assertNumbered(t, s, 7)
			require.Zero(t, s.Tokens())
			require.Equal(t, []int{2}, open(t, c.paths, pair(8, Unknown), c.o).Inputs()[0].Shape)
			b, err := newBatch(s.Inputs(), 1)
			require.NoError(t, err)
			require.Zero(t, testing.AllocsPerRun(10, func() {
				if err := s.Fill(3, 0, b.Tensors); err != nil {
					panic(err)
				}
			}))
		})
	}
	s := open(t, []string{in("whole"), one}, pair(8, 2), Options{})
	require.EqualValues(t, 14, s.Samples())
	require.Equal(t, int64s(batchOf(t, s, 6)[1]), int64s(batchOf(t, s, 13)[1]))
}

// TestNumpyArrays reads what numpy writes, in every order of bytes and dims, compressed or not.
func TestNumpyArrays(t *testing.T) {
	python := ""
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import numpy").Run() == nil {
			python = name
		}
	}
	if python == "" {
		t.Skip("no python3 with numpy: apt-get install python3-numpy brings it")
	}
	dir := t.TempDir()
	cmd := exec.Command(python, "-c", `
import numpy as np
x = (np.arange(14) + 0.5).astype(np.float32).reshape(7, 2)
y = np.arange(7)
np.savez("plain.npz", x=x, labels=y)
np.savez_compressed("packed.npz", x=x, labels=y)
np.savez("swapped.npz", x=x.astype(">f4"), labels=y.astype(">i8"))
np.savez("fortran.npz", x=np.asfortranarray(x), labels=y)
np.savez("small.npz", x=x.astype(np.float16), labels=y.astype(np.uint8))
np.savez("wide.npz", x=x, labels=y.astype(np.int32))
np.savez("bools.npz", x=x, labels=y > 3)
`)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, name := range []string{"plain", "packed", "swapped", "fortran", "small", "wide"} {
		assertNumbered(t, open(t, []string{filepath.Join(dir, name+".npz")}, pair(8, 2), Options{}), 7)
	}
	s := open(t, []string{filepath.Join(dir, "bools.npz")}, pair(2, 2), Options{})
	require.Equal(t, []int64{0, 1}, int64s(batchOf(t, s, 3, 4)[1]))
	require.NoError(t, s.Check(context.Background()))
}

// TestCIFAR reads images in the binary layout of CIFAR-10 as floats from 0 to 1.
func TestCIFAR(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data_batch_1.bin")
	raw := make([]byte, 3*3073)
	for i := range raw {
		raw[i] = byte(i * 7)
	}
	for i := range 3 {
		raw[i*3073] = byte(9 - i)
	}
	require.NoError(t, os.WriteFile(path, raw, 0o666))
	in := pair(10, 3, 32, 32)
	for _, d := range []graph.DType{graph.Float32, graph.Float64} {
		in[0].DType = d
		s := open(t, []string{path}, in, Options{Record: "labels:uint8, x:uint8[3,32,32]/255"})
		require.NoError(t, s.Check(context.Background()))
		b := batchOf(t, s, 1, 2)
		require.Equal(t, []int64{8, 7}, int64s(b[1]))
		for i := range 2 * 3072 {
			want := float64(raw[3073*(1+i/3072)+1+i%3072]) / 255
			if d == graph.Float32 {
				require.Equal(t, float32(want), executor.Of[float32](b[0])[i])
			} else {
				require.Equal(t, want, executor.Of[float64](b[0])[i])
			}
		}
	}
	in[0].DType, in[0].Classes = graph.Float32, 2
	s := open(t, []string{path}, in, Options{Record: "labels:uint8,x:uint8[3,32,32]/255"})
	require.NoError(t, s.Check(context.Background()), "quotients are not looked at")
	in[0].Classes = 0
	s = open(t, []string{path}, in, Options{Record: "labels:uint8,x:uint8[3,32,32]"})
	require.Equal(t, float32(raw[1]), executor.Of[float32](batchOf(t, s, 0)[0])[0])
	s = open(t, []string{path}, pair(9, 3, 32, 32), Options{Record: "labels:uint8,x:uint8[3,32,32]"})
	require.EqualError(t, s.Check(context.Background()), path+`: field "labels": row 0 is 9; `+
		`input "labels" takes elements from 0 to 8, or -100`)
}

// TestUnbatched: an input that is no sample's is the same in all sets, and written once per batch.
func TestUnbatched(t *testing.T) {
	dir := t.TempDir()
	mask := executor.NewTensor[float32](graph.Float32, []int{3}, 1, 2, 3)
	other := executor.NewTensor[float32](graph.Float32, []int{3}, 1, 2, 4)
	a := writeNpz(t, filepath.Join(dir, "a.npz"), npz.Array{Name: "x", Tensor: floats(0, 2)},
		npz.Array{Name: "mask", Tensor: mask})
	b := writeNpz(t, filepath.Join(dir, "b.npz"), npz.Array{Name: "x", Tensor: floats(2, 1)},
		npz.Array{Name: "mask", Tensor: mask})
	c := writeNpz(t, filepath.Join(dir, "c.npz"), npz.Array{Name: "x", Tensor: floats(2, 1)},
		npz.Array{Name: "mask", Tensor: other})
	in := []Input{pair(0, 2)[0], {Name: "mask", DType: graph.Float32, Shape: []int{3}}}
	s := open(t, []string{a, b}, in, Options{})
	require.EqualValues(t, 3, s.Samples())
	batch := batchOf(t, s, 2, 1)
	require.Equal(t, []float32{4.5, 5.5, 2.5, 3.5}, executor.Of[float32](batch[0]))
	require.Equal(t, []float32{1, 2, 3}, executor.Of[float32](batch[1]))
	_, err := Open([]string{a, c}, in, Options{})
	require.ErrorContains(t, err, `c.npz: array "mask": differs from `)
	_, err = Open([]string{a}, in[1:], Options{})
	require.ErrorContains(t, err, `no input has a dim that counts samples, of "mask" (float)`)

	d := writeNpz(t, filepath.Join(dir, "d.npz"), npz.Array{Name: "x", Tensor: floats(0, 3)},
		npz.Array{Name: "mask", Tensor: mask})
	_, err = Open([]string{d}, in, Options{})
	require.ErrorContains(t, err, `array "mask": has 3 rows, as many as there are samples`)
	in[1].Whole = true
	require.EqualValues(t, 3, open(t, []string{d}, in, Options{}).Samples())
}

// TestArrayNames: arrays say by their names which inputs they are for.
func TestArrayNames(t *testing.T) {
	dir := t.TempDir()
	set := writeNpz(t, filepath.Join(dir, "set.npz"), npz.Array{Name: "x", Tensor: floats(0, 2)},
		npz.Array{Name: "l", Tensor: labels(0, 2)})
	one := writeNpy(t, filepath.Join(dir, "x.npy"), floats(0, 2))
	require.ElementsMatch(t, []string{"x", "l"}, ArrayNames([]string{set}, Options{}))
	require.ElementsMatch(t, []string{"x", "labels"},
		ArrayNames([]string{set}, Options{Names: map[string]string{"labels": "l"}}))
	require.Equal(t, []string{"x"}, ArrayNames([]string{one}, Options{}))
	require.Equal(t, []string{"images"}, ArrayNames([]string{"images=" + one}, Options{}))
	require.Equal(t, []string{"x"}, ArrayNames([]string{dir}, Options{}))
	numbered := writeNpz(t, filepath.Join(dir, "n.npz"), npz.Array{Name: "arr_0", Tensor: floats(0, 2)})
	require.Empty(t, ArrayNames([]string{numbered}, Options{}), "places tell, and not names")
	require.Empty(t, ArrayNames([]string{filepath.Join(dir, "none.npz")}, Options{}))
}

// TestLabelRange: the first label outside the classes is named, in rows of any shape.
func TestLabelRange(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		rows, width := rapid.IntRange(1, 40).Draw(r, "rows"), rapid.IntRange(1, 3).Draw(r, "width")
		d := rapid.SampledFrom([]graph.DType{graph.Int8, graph.Int32, graph.Int64, graph.Uint8}).Draw(r, "type")
		values := rapid.SliceOfN(rapid.Int64Range(-1, 11), rows*width, rows*width).Draw(r, "values")
		want := ""
		for i, v := range values {
			if d == graph.Uint8 && v < 0 {
				values[i], v = 0, 0
			}
			if (v < 0 || v >= 10) && v != -1 {
				want = fmt.Sprintf("row %d, element [%d] is %d; input \"y\" takes elements from 0 to 9, or -1",
					i/width, i%width, v)
				break
			}
		}
		x := &executor.Tensor{DType: d, Shape: []int{rows, width}, Data: make([]byte, len(values)*d.Bits()/8)}
		converter(graph.Int64, d)(x.Data, executor.Memory(values))
		path := filepath.Join(dir, "y.npy")
		var b bytes.Buffer
		require.NoError(r, npz.WriteArray(&b, x))
		require.NoError(r, os.WriteFile(path, b.Bytes(), 0o666))
		in := []Input{{Name: "y", DType: graph.Int64, Shape: []int{width}, Batched: true, Classes: 10, Ignore: -1,
			HasIgnore: true}}
		s, err := Open([]string{path}, in, Options{})
		require.NoError(r, err)
		defer s.Close()
		if err := s.Check(context.Background()); want == "" {
			require.NoError(r, err)
		} else {
			require.EqualError(r, err, path+": "+want)
		}
	})
}

// TestEscapedNames: a file is called after its input, whose name may be no name of a file.
func TestEscapedNames(t *testing.T) {
	dir := t.TempDir()
	path := writeNpy(t, filepath.Join(dir, "in%2Fx.npy"), floats(0, 3))
	in := []Input{{Name: "in/x", DType: graph.Float32, Shape: []int{2}, Batched: true}}
	for _, data := range []string{path, dir} {
		require.EqualValues(t, 3, open(t, []string{data}, in, Options{}).Samples())
	}
}

// TestBoolRange: a bool in a file that is mapped is 0 or 1.
func TestBoolRange(t *testing.T) {
	path := writeNpy(t, filepath.Join(t.TempDir(), "keep.npy"),
		executor.NewTensor[uint8](graph.Bool, []int{3}, 0, 1, 2))
	in := []Input{{Name: "keep", DType: graph.Bool, Batched: true}}
	require.EqualError(t, open(t, []string{path}, in, Options{}).Check(context.Background()),
		path+`: row 2 is 2; input "keep" takes elements from 0 to 1`)
}

// TestTableErrors: what does not fit is said with the file, the input, and what was wanted.
func TestTableErrors(t *testing.T) {
	dir := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	x := writeNpy(t, in("x.npy"), floats(0, 4))
	y := writeNpy(t, in("labels.npy"), labels(0, 4))
	writeNpy(t, in("short", "x.npy"), floats(0, 4))
	writeNpy(t, in("short", "labels.npy"), labels(0, 3))
	writeNpy(t, in("no", "x.npy"), floats(0, 4))
	writeNpy(t, in("no", "y.npy"), labels(0, 4))
	empty := writeNpz(t, in("empty.npz"), npz.Array{Name: "x", Tensor: floats(0, 0)},
		npz.Array{Name: "labels", Tensor: labels(0, 0)})
	scalar := writeNpy(t, in("scalar", "x.npy"), executor.NewTensor[float32](graph.Float32, nil, 1))
	double := writeNpy(t, in("double", "x.npy"), executor.NewTensor[float64](graph.Float64, []int{1, 2}, 1, 2))
	require.NoError(t, os.MkdirAll(in("nothing"), 0o777))
	require.NoError(t, os.MkdirAll(in("set"), 0o777))
	require.NoError(t, os.WriteFile(in("set", "input_0.pb"), []byte("junk"), 0o666))
	junk := in("junk.npy")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o666))
	writeNpz(t, in("as.npy"), npz.Array{Name: "x", Tensor: floats(0, 4)},
		npz.Array{Name: "labels", Tensor: labels(0, 4)})
	record := in("a.dat")
	require.NoError(t, os.WriteFile(record, make([]byte, 10), 0o666))
	for _, c := range []struct {
		want  string
		paths []string
		o     Options
	}{
		{"no data", nil, Options{}},
		{in("short", "labels.npy") + ": has 3 rows, and " + in("short", "x.npy") + " has 4",
			[]string{in("short")}, Options{}},
		{in("no") + `: nothing is called "labels", for input "labels" (int64[]); there is "x", "y"`,
			[]string{in("no")}, Options{}},
		{in("no", "x.npy") + `: nothing is called "labels"`, []string{in("no", "x.npy")}, Options{}},
		{in("no", "y.npy") + `: no input is called "y", of "x" (float), "labels" (int64): name the file after its`,
			[]string{in("no", "y.npy"), x}, Options{}},
		{"the data has no samples", []string{empty}, Options{}},
		{scalar + `: is a scalar; wanted rows`, []string{scalar, y}, Options{}},
		{double + `: has elements of type double; input "x" takes float, and not every double is one: convert the data`,
			[]string{double, y}, Options{}},
		{in("nothing") + ": has neither arrays", []string{in("nothing")}, Options{}},
		{in("gone") + ": no such file", []string{in("gone")}, Options{}},
		{in("*.gone") + ": matches no file", []string{in("*.gone")}, Options{}},
		{"example:pictures: no such example of data; there is example:text", []string{"example:pictures"}, Options{}},
		{junk, []string{"x=" + junk, y}, Options{}},
		{in("set", "input_0.pb"), []string{in("set")}, Options{}},
		{record + ": its name does not tell its contents", []string{record}, Options{}},
		{record + ": records need a description (Record)", []string{record}, Options{Format: formatRecords}},
		{record + ": has 10 bytes, which is no whole number of records of 3 bytes", []string{record},
			Options{Record: "x:uint8[2],labels:uint8"}},
		{record + `: field "x": each row is of shape [1]; input "x" takes [2]`, []string{record},
			Options{Record: "x:uint8[1],labels:uint8"}},
		{record + `: nothing is called "labels", for input "labels" (int64[]); there is "x"`, []string{record},
			Options{Record: "x:uint8[2]"}},
		{"cannot be divided from float to float: wanted integers", []string{record},
			Options{Record: "x:float[2]/2,labels:int16"}},
		{x + ": is data of format npy, which has no records", []string{x, y}, Options{Record: "x:uint8"}},
		{x + " is data of format npy, and " + exampleText + " of format tokens", []string{x, exampleText}, Options{}},
		{y + ": is no folder; wanted one in ONNX's test layout", []string{y}, Options{Format: formatONNX}},
		{in("as.npy") + ": is an archive of arrays; wanted one array", []string{"x=" + in("as.npy"), y}, Options{}},
	} {
		s, err := Open(c.paths, pair(8, 2), c.o)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, s)
	}
	_, err := Open([]string{x}, nil, Options{})
	require.ErrorContains(t, err, "the model has no inputs for data")
}

// TestTableTokens: arrays of tokens have tokens to count.
func TestTableTokens(t *testing.T) {
	path := writeNpy(t, filepath.Join(t.TempDir(), "input_ids.npy"),
		executor.NewTensor[uint16](graph.Uint16, []int{2, 3}, 1, 2, 3, 4, 5, 6))
	in := []Input{{Name: "input_ids", DType: graph.Int64, Shape: []int{3}, Batched: true}}
	require.EqualValues(t, 3, open(t, []string{path}, in, Options{}).Tokens())
	_, err := Open([]string{path}, gpt(2, 0)[:1], Options{Format: formatTokens})
	require.ErrorContains(t, err, path+": wanted one array with one dim, of uint16, uint8, uint32, int32, int64")
	flat := writeNpy(t, filepath.Join(t.TempDir(), "train.npy"),
		executor.NewTensor[uint32](graph.Uint32, []int{6}, 1, 2, 3, 4, 5, 70000))
	s := open(t, []string{flat}, gpt(2, 0), Options{Format: formatTokens})
	require.Equal(t, []int64{3, 4}, int64s(batchOf(t, s, 1)[0]))
	_, err = Open([]string{flat}, gpt(2, 0), Options{Format: formatTokens, TokenType: "uint16"})
	require.ErrorContains(t, err, "is an array of uint32; wanted uint16")
	_, err = Open([]string{flat}, gpt(2, 0), Options{})
	require.ErrorContains(t, err, "tokens in a .npy file need Format tokens")
}

// FuzzRecord: a description is an error, or fields that lie one behind the other.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{"image:uint8[3,32,32]/255,label:uint8", " a : float32 [ 2 , 3 ] / -1e3 , _:int8[7]",
		"a:uint8[", "a:uint8[0]", "a:uint8[-1]", "a:string", "a:uint8/0", "a:uint8/inf", "a", ":int8", "a:int8,",
		"a:int8,a:int8", "a:int64[9223372036854775807,9]", "a:uint8]x", "a:uint4", "a:complex64", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fields, size, err := parseRecord(text)
		if err != nil {
			return
		}
		at := int64(0)
		again := ""
		for i, g := range fields {
			require.Equal(t, at, g.offset)
			n, ok := executor.Bytes(g.dtype, g.shape)
			require.True(t, ok && n > 0)
			at += int64(n)
			if i > 0 {
				again += ","
			}
			again += g.name + ":" + g.dtype.String()
			if g.shape != nil {
				again += strings.ReplaceAll(fmt.Sprint(g.shape), " ", ",")
			}
			if g.divisor != 0 {
				again += fmt.Sprintf("/%g", g.divisor)
			}
		}
		require.Equal(t, at, size)
		fields2, _, err := parseRecord(again)
		require.NoError(t, err, again)
		require.Equal(t, fields, fields2)
	})
}

// FuzzTokenFile: whatever a file of tokens holds, its blocks lie in it.
func FuzzTokenFile(f *testing.F) {
	header := binary.LittleEndian.AppendUint32(nil, 20240520)
	header = binary.LittleEndian.AppendUint32(header, 1)
	header = append(binary.LittleEndian.AppendUint32(header, 4), make([]byte, 1012)...)
	f.Add(append(header, 1, 0, 2, 0, 3, 0, 4, 0), "a.bin", uint8(0), uint8(3))
	var npy bytes.Buffer
	require.NoError(f, npz.WriteArray(&npy, labels(0, 9)))
	f.Add(npy.Bytes(), "a.npy", uint8(0), uint8(3))
	f.Add([]byte("some text of one sort"), "a.txt", uint8(0), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, name string, typ, seq uint8) {
		path := filepath.Join(t.TempDir(), "a"+filepath.Ext(filepath.Base(name)))
		if os.WriteFile(path, data, 0o666) != nil || seq == 0 {
			return
		}
		types := []string{"", "uint8", "uint16", "uint32", "int32", "int64"}
		o := Options{Format: formatTokens, TokenType: types[int(typ)%len(types)]}
		s, err := Open([]string{path}, gpt(int(seq), 0), o)
		if err != nil {
			return
		}
		defer s.Close()
		require.Positive(t, s.Samples())
		batchOf(t, s, 0, s.Samples()-1)
	})
}

// TestRecordFields: bytes may be skipped in several places, other names occur once.
func TestRecordFields(t *testing.T) {
	fields, size, err := parseRecord("_:uint8, a:int16[2], _:uint8[3], b:float64")
	require.NoError(t, err)
	require.EqualValues(t, 1+4+3+8, size)
	require.Len(t, fields, 4)
	require.EqualValues(t, 8, fields[3].offset)
	for text, want := range map[string]string{
		"a:int8,a:int8":             `field "a" occurs twice`,
		"a:int8 b:int8":             `type "int8 b:int8"`,
		"a:int8[2] b":               `"b" behind field "a", wanted a comma`,
		"a:int8,":                   `wanted NAME:TYPE[DIMS]`,
		"a:int8[2":                  `"[2" has no closing bracket`,
		"a:int8[0]":                 `dim "0", wanted a positive number`,
		"a:string":                  `type "string", wanted one such as`,
		"a:uint8/0":                 `divisor "0", wanted a number that is not 0`,
		"a:int8[999999999999,9999]": `field "a" has no size that a record can have`,
	} {
		_, _, err := parseRecord(text)
		require.ErrorContains(t, err, want)
	}
}

// TestBlocksAreOfTokens: rows of arrays are samples, so that other blocks than the usual ones are an error there.
func TestBlocksAreOfTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	writeNpy(t, path, floats(0, 7))
	for _, blocks := range []string{"documents", "documents:3", "random"} {
		_, err := Open([]string{path}, pair(3, 2)[:1], Options{Blocks: blocks})
		require.ErrorContains(t, err, path+": is data of format npy, whose samples are its rows: "+blocks+" are of tok")
	}
	for _, blocks := range []string{"", "disjoint"} {
		s, err := Open([]string{path}, pair(3, 2)[:1], Options{Blocks: blocks})
		require.NoError(t, err)
		require.EqualValues(t, 7, s.Samples())
		require.NoError(t, s.Close())
	}
}
