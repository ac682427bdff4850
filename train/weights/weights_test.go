package weights_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/half"
	"memopt/train/safetensors"
	"memopt/train/weights"
)

func open(t *testing.T, path string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestPyTorch: weights that PyTorch has saved, by a module in a wrapper or in part as float16, give
// its outputs in the model that it has exported, which has transposed and renamed some of them.
func TestPyTorch(t *testing.T) {
	io := open(t, "testdata/run.safetensors")
	ids, _ := io.Tensor("ids")
	want, _ := io.Tensor("y")
	for _, c := range []struct {
		file   string
		how    weights.How
		prefix string
	}{{"net.safetensors", weights.Prefix, ""}, {"half.safetensors", weights.Exact, ""}} {
		m, opened, err := onnx.Open("testdata/net.onnx")
		require.NoError(t, err)
		var names []string
		for _, v := range m.Graph.Initializers {
			names = append(names, m.Graph.ValueName(v))
		}
		found, err := weights.Find(m, names, open(t, "testdata/"+c.file))
		require.NoError(t, err)
		require.NoError(t, found.Complete())
		require.Equal(t, c.prefix, found.Prefix)
		require.Len(t, found.Unused, 1)
		require.True(t, strings.HasSuffix(found.Unused[0], "bn.num_batches_tracked"))
		folded := 0
		for _, match := range found.Matches {
			if match.How == weights.Folded {
				folded++
				require.True(t, match.Transpose)
				continue
			}
			require.Equal(t, c.how, match.How)
			require.Equal(t, match.Parameter, strings.TrimPrefix(match.Tensor, "module."))
		}
		require.Equal(t, 7, folded)
		found.Apply()
		model, err := memopt.New(m, memopt.Options{})
		require.NoError(t, err)
		x := model.Execution()
		x.Inputs["ids"] = &executor.Tensor{DType: ids.DType, Shape: ids.Shape, Data: bytes.Clone(ids.Data)}
		run, err := x.Run(t.Context(), verify.Options{Engine: verify.On(cpu.Device{})})
		require.NoError(t, err)
		got := executor.Of[float32](run.Outputs[0].Tensor)
		for i, w := range executor.Cast[float32](want.Data) {
			require.InEpsilon(t, w, got[i], 1e-5, "element %d", i)
		}
		require.NoError(t, opened.Close())
	}
}

// tensor is one of a file: its elements are the numbers from 0 on.
type tensor struct {
	name  string
	dtype graph.DType
	shape []int
}

// file writes a file of tensors.
func file(t *testing.T, list ...tensor) *safetensors.File {
	t.Helper()
	var entries []safetensors.Entry
	for _, x := range list {
		entries = append(entries, safetensors.Entry{Name: x.name, DType: x.dtype, Shape: x.shape})
	}
	var out bytes.Buffer
	require.NoError(t, safetensors.Write(&out, entries, nil, func(i int, dst []byte) error {
		for k := range len(dst) * 8 / entries[i].DType.Bits() {
			switch v := float32(k); entries[i].DType {
			case graph.Float32:
				executor.Cast[float32](dst)[k] = v
			case graph.Float64:
				executor.Cast[float64](dst)[k] = float64(v)
			case graph.Float16:
				executor.Cast[half.Float16](dst)[k] = half.Float16From(v)
			case graph.BFloat16:
				executor.Cast[half.BFloat16](dst)[k] = half.BFloat16From(v)
			}
		}
		return nil
	}))
	path := filepath.Join(t.TempDir(), "w.safetensors")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o666))
	return open(t, path)
}

// parse makes a model of parameters a.weight [2,3], a.bias [3], b.a.weight [2,3], and the folded
// weight of the module fc.
func parse(t *testing.T) *graph.Model {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2,3] "a.weight") => (float[4] y)
<float[3] "a.bias" = {1, 2, 3}, float[2,3] "b.a.weight" = {1, 2, 3, 4, 5, 6},
 float[3,4] "onnx::MatMul_7" = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float one = {1}>
{
   ["/a/MatMul"] p = MatMul (x, "a.weight")
   ["/b/a/MatMul"] q = MatMul (x, "b.a.weight")
   r = Add (p, q)
   s = Add (r, "a.bias")
   ["/fc/MatMul"] z = MatMul (s, "onnx::MatMul_7")
   y = Mul (z, one)
}`, "m.onnx")
	require.NoError(t, err)
	return m
}

var parameters = []string{"a.weight", "a.bias", "b.a.weight", "onnx::MatMul_7"}

const f32 = graph.Float32

// TestMatches says which tensor is taken for which parameter, or why none is.
func TestMatches(t *testing.T) {
	two, bias, fc := []int{2, 3}, []int{3}, []int{4, 3}
	all := func(before string) []tensor {
		return []tensor{{before + "a.weight", f32, two}, {before + "a.bias", f32, bias},
			{before + "b.a.weight", f32, two}, {before + "fc.weight", f32, fc}}
	}
	found := func(before string) string { // what is found of all(before)
		return strings.ReplaceAll("a.weight=@a.weight a.bias=@a.bias b.a.weight=@b.a.weight "+
			"onnx::MatMul_7=@fc.weight^T", "@", before)
	}
	for name, c := range map[string]struct {
		file []tensor
		want string // the matches, or an error
	}{
		"exact":  {all(""), found("")},
		"module": {all("module."), found("module.")},
		"prefix": {all("net.model."), found("net.model.")},
		"inside": {[]tensor{{"a._orig_mod.weight", f32, two}, {"a.bias_", f32, bias},
			{"module.a.module.bias", f32, bias}},
			"a.weight=a._orig_mod.weight a.bias=module.a.module.bias -b.a.weight -onnx::MatMul_7 +a.bias_"},
		"exact first": {append(all("x."), tensor{"a.bias", f32, bias}),
			"a.bias=a.bias -a.weight -b.a.weight -onnx::MatMul_7 +x.a.weight +x.a.bias +x.b.a.weight +x.fc.weight"},
		"half exact": {all("b."), "b.a.weight=b.a.weight -a.weight -a.bias -onnx::MatMul_7 " +
			"+b.a.bias +b.b.a.weight +b.fc.weight"},
		"by the way": {append(all("net."), tensor{"one", f32, nil}), found("net.") + " +one"},
		"types": {[]tensor{{"a.bias", graph.Float16, bias}, {"a.weight", graph.BFloat16, two}},
			"a.weight=a.weight a.bias=a.bias -b.a.weight -onnx::MatMul_7"},
		"narrow": {[]tensor{{"a.bias", graph.Float64, bias}},
			`tensor "a.bias" is parameter "a.bias" by name, but has type double; wanted float`},
		"shape": {[]tensor{{"a.bias", f32, []int{4}}}, `has shape [4]; wanted [3]`},
		"transposed": {[]tensor{{"a.weight", f32, []int{3, 2}}},
			"has shape [3 2]; wanted [2 3]; it is the other's transpose"},
		"not folded": {[]tensor{{"a.bias", f32, bias}, {"fc.weight", f32, []int{3, 4}}},
			`tensor "fc.weight", transposed, is parameter "onnx::MatMul_7", which node "/fc/MatMul" reads, ` +
				`but has shape [3 4]; wanted [4 3]`},
		"two sets":     {append(all("old."), all("new.")...), `3 tensors fit by the prefix "new." and as many by "old."`},
		"two wrappers": {append(all("module."), all("_orig_mod.")...), `but for the prefixes of wrappers`},
		"a constant":   {append(all(""), tensor{"one", f32, []int{1}}), found("") + " +one"},
		"nothing":      {nil, "-a.weight -a.bias -b.a.weight -onnx::MatMul_7"},
	} {
		match, err := weights.Find(parse(t), parameters, file(t, c.file...))
		if err != nil {
			require.ErrorContains(t, err, c.want, name)
			continue
		}
		var got []string
		for _, x := range match.Matches {
			text := x.Parameter + "=" + x.Tensor
			if x.Transpose {
				text += "^T"
			}
			got = append(got, text)
		}
		for _, x := range match.Missing {
			got = append(got, "-"+x)
		}
		for _, x := range match.Unused {
			got = append(got, "+"+x)
		}
		want := strings.Fields(c.want)
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got, name)
		require.Equal(t, match.Missing == nil, match.Complete() == nil)
	}
}

// TestContents: elements are copied, converted and transposed, and given to the model.
func TestContents(t *testing.T) {
	for _, d := range []graph.DType{f32, graph.Float16, graph.BFloat16} {
		m := parse(t)
		found, err := weights.Find(m, parameters, file(t, tensor{"a.weight", d, []int{2, 3}},
			tensor{"fc.weight", d, []int{4, 3}}, tensor{"a.bias", d, []int{3}}))
		require.NoError(t, err)
		require.ErrorContains(t, found.Complete(), "no tensor for 1 of the 4 parameters that are needed: b.a.weight")
		for name, want := range map[string][]float32{"a.weight": {0, 1, 2, 3, 4, 5}, "a.bias": {0, 1, 2},
			"onnx::MatMul_7": {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}} {
			got, ok, err := found.Tensor(name)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want, executor.Of[float32](got))
		}
		_, ok, err := found.Tensor("b.a.weight")
		require.NoError(t, err)
		require.False(t, ok)
		found.Apply()
		v, _ := m.Graph.Lookup("onnx::MatMul_7")
		list, err := m.Graph.Values[v].Data.Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}, list)
		v, _ = m.Graph.Lookup("one")
		list, err = m.Graph.Values[v].Data.Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{1}, list)
	}
}

// TestAmbiguous: a tensor that nodes make out to be two parameters, or two tensors that could be one, are
// refused, and both are named.
func TestAmbiguous(t *testing.T) {
	const head = `<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) `
	four := "{1, 2, 3, 4}"
	two := []int{2, 2}
	for want, c := range map[string]struct {
		model string
		file  []tensor
	}{
		`tensor "fc.weight" could be parameter "onnx::MatMul_7", which node "/fc/MatMul_1" reads, and another parameter`: {
			`<float[2,2] "fc.weight" = ` + four + `, float[2,2] "onnx::MatMul_7" = ` + four + `>
			{ ["/fc/MatMul"] p = MatMul (x, "fc.weight")  ["/fc/MatMul_1"] y = MatMul (p, "onnx::MatMul_7") }`,
			[]tensor{{"fc.weight", f32, two}}},
		`tensor "fc.weight" could be parameter "onnx::MatMul_8", which node "/fc/MatMul_1" reads, and another`: {
			`<float[2,2] "onnx::MatMul_7" = ` + four + `, float[2,2] "onnx::MatMul_8" = ` + four + `>
			{ ["/fc/MatMul"] p = MatMul (x, "onnx::MatMul_7")  ["/fc/MatMul_1"] y = MatMul (p, "onnx::MatMul_8") }`,
			[]tensor{{"fc.weight", f32, two}}},
		`tensors "a.weight" and "b.weight" could both be parameter "onnx::MatMul_7"`: {
			`<float[2,2] "onnx::MatMul_7" = ` + four + `>
			{ ["/a/MatMul"] p = MatMul (x, "onnx::MatMul_7")  ["/b/MatMul"] y = MatMul (p, "onnx::MatMul_7") }`,
			[]tensor{{"a.weight", f32, two}, {"b.weight", f32, two}}},
		`tensor "w" could be "module.w" and "w", which have one name but for the prefixes of wrappers`: {
			`<float[2,2] "module.w" = ` + four + `, float[2,2] "w" = ` + four + `, float[2,2] b = ` + four + `>
			{ p = MatMul (x, "module.w")  q = MatMul (p, w)  y = MatMul (q, b) }`,
			[]tensor{{"_orig_mod.w", f32, two}}},
	} {
		m, err := graph.Parse(head+c.model, "m.onnx")
		require.NoError(t, err)
		var names []string
		for _, v := range m.Graph.Initializers {
			names = append(names, m.Graph.ValueName(v))
		}
		_, err = weights.Find(m, names, file(t, c.file...))
		require.ErrorContains(t, err, strings.Replace(want, `tensor "w"`, `tensor "_orig_mod.w"`, 1))
	}
}
