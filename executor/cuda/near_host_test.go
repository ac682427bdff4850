package cuda_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// drawNormals makes a tensor of normally distributed numbers.
func drawNormals(t *rapid.T, dt graph.DType, shape ...int) *executor.Tensor {
	return normalTensor(rapid.Uint64().Draw(t, "seed"), dt, shape...)
}

func normalTensor(seed uint64, dt graph.DType, shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	r := rand.New(rand.NewPCG(seed, 1))
	v32, v16 := make([]float32, n), make([]half.Float16, n)
	for i := range v32 {
		v32[i] = float32(r.NormFloat64())
		v16[i] = half.Float16From(v32[i])
	}
	if dt == graph.Float16 {
		return executor.NewTensor(dt, shape, v16...)
	}
	return executor.NewTensor(dt, shape, v32...)
}

// fataler is a test's or a rapid check's.
type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// nearHost runs a case on the device and on the host; outputs may differ by the tolerance.
func nearHost(t fataler, d executor.Device, c *kerneltest.Case, tol float64) {
	want, err := kerneltest.Run(cpu.Device{}, c, kerneltest.Setup{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := kerneltest.Run(d, c, kerneltest.Setup{Threads: 1, Runs: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if want[i] == nil {
			continue
		}
		if err := kerneltest.Compare(got[i], want[i], tol); err != nil {
			t.Fatalf("output %d: %v", i, err)
		}
	}
}

// drawFloat draws a type with the tolerance of results that round a few times.
func drawFloat(t *rapid.T) (graph.DType, float64) {
	if rapid.Bool().Draw(t, "half") {
		return graph.Float16, 1e-2
	}
	return graph.Float32, 2e-5
}

// drawDim draws a small dim.
func drawDim(t *rapid.T, most int, name string) int { return rapid.IntRange(1, most).Draw(t, name) }

// TestAttentionLikeHost: attentions of random shapes, in parts of random sizes, give the host's
// results.
func TestAttentionLikeHost(t *testing.T) {
	d := device(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SampledFrom([]int{1, 1 << 9, 1 << 11, 1 << 20}).Draw(t, "bytes")
		defer cuda.LowerAttentionScores(bytes, rapid.IntRange(1, 5).Draw(t, "queries"))()
		c, tol := drawAttention(t)
		nearHost(t, d, c, tol)
	})
}

// drawAttention draws a case of Attention.
func drawAttention(t *rapid.T) (*kerneltest.Case, float64) {
	dt, tol := drawFloat(t)
	batch, kv, group := drawDim(t, 3, "batch"), drawDim(t, 3, "kv"), drawDim(t, 3, "group")
	seq, keys, size, sizeV := drawDim(t, 12, "seq"), drawDim(t, 12, "keys"), drawDim(t, 9, "size"),
		drawDim(t, 9, "sizeV")
	heads, total := kv*group, keys
	c := &kerneltest.Case{Name: "random", Kind: op.Attention, In: make([]*executor.Tensor, 7),
		Attrs: []graph.Attr{kerneltest.Attr("is_causal", rapid.Int64Range(0, 1).Draw(t, "causal")),
			kerneltest.Attr("softcap", rapid.SampledFrom([]float32{0, 1.5}).Draw(t, "softcap")),
			kerneltest.Attr("qk_matmul_output_mode", rapid.Int64Range(0, 3).Draw(t, "mode"))},
		Out: []graph.DType{dt, dt, dt, dt}}
	if !rapid.Bool().Draw(t, "outputs") {
		c.Out = c.Out[:1]
	}
	if rapid.Bool().Draw(t, "packed") {
		c.Attrs = append(c.Attrs, kerneltest.Attr("q_num_heads", int64(heads)),
			kerneltest.Attr("kv_num_heads", int64(kv)))
		c.In[0], c.In[1], c.In[2] = drawNormals(t, dt, batch, seq, heads*size),
			drawNormals(t, dt, batch, keys, kv*size), drawNormals(t, dt, batch, keys, kv*sizeV)
	} else {
		c.In[0], c.In[1], c.In[2] = drawNormals(t, dt, batch, heads, seq, size), drawNormals(t, dt, batch, kv, keys,
			size), drawNormals(t, dt, batch, kv, keys, sizeV)
	}
	if rapid.Bool().Draw(t, "past") {
		past := rapid.IntRange(0, 4).Draw(t, "before")
		total += past
		c.In[4], c.In[5] = drawNormals(t, dt, batch, kv, past, size), drawNormals(t, dt, batch, kv, past, sizeV)
	}
	if rapid.Bool().Draw(t, "mask") {
		shape := []int{batch, heads, seq, total}
		for i := range 3 {
			if rapid.Bool().Draw(t, "broadcast") {
				shape[i] = 1
			}
		}
		c.In[3] = drawNormals(t, dt, shape...)
	}
	if rapid.Bool().Draw(t, "lengths") {
		n := rapid.SliceOfN(rapid.Int64Range(0, int64(total)), batch, batch).Draw(t, "lengths")
		c.In[6] = executor.NewTensor(graph.Int64, []int{batch}, n...)
	}
	return c, tol
}

// TestLongRows: rows that registers do not hold take another way.
func TestLongRows(t *testing.T) {
	d := device(t, double.Options{})
	for _, n := range []int{8200, 8195} { // whole packs, and not
		x, y := normalTensor(1, graph.Float32, 2, n), normalTensor(2, graph.Float32, 2, n)
		one := normalTensor(3, graph.Float32, n)
		f := graph.Float32
		for _, c := range []kerneltest.Case{
			{
				Kind: op.SkipLayerNormalization, In: []*executor.Tensor{x, y, one, one, one},
				Out: []graph.DType{f, f, f, f},
			},
			{Kind: op.SkipSimplifiedLayerNormalization, In: []*executor.Tensor{x, y, one}, Out: []graph.DType{f}},
			{
				Kind: op.BiasSoftmax, In: []*executor.Tensor{x, one}, Out: []graph.DType{f},
				Attrs: []graph.Attr{kerneltest.Attr("axis", int64(1))},
			},
			{Kind: op.LpNormalization, In: []*executor.Tensor{x}, Out: []graph.DType{f}},
			{Kind: op.Hardmax, In: []*executor.Tensor{x}, Out: []graph.DType{f}},
			{Kind: op.Attention,
				In: []*executor.Tensor{normalTensor(4, f, 1, 1, 3, 4), normalTensor(5, f, 1, 1, n, 4),
					normalTensor(6, f, 1, 1, n, 4), normalTensor(7, f, 3, n)},
				Out: []graph.DType{f, 0, 0, f},
				Attrs: []graph.Attr{kerneltest.Attr("is_causal", int64(1)),
					kerneltest.Attr("qk_matmul_output_mode", int64(3))}},
		} {
			c.Name = op.Of(c.Kind).Name
			nearHost(t, d, &c, 1e-4)
		}
	}
}

// TestEinsumLikeHost: random equations over floats and integers.
func TestEinsumLikeHost(t *testing.T) {
	d := device(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOfN(rapid.IntRange(0, 6), 5, 5).Draw(t, "dims")
		terms := rapid.SliceOfN(rapid.SliceOfN(rapid.ByteRange('a', 'e'), 0, 4), 1, 3).Draw(t, "terms")
		dt := rapid.SampledFrom([]graph.DType{graph.Float32, graph.Int32, graph.Int64, graph.Uint8}).Draw(t, "type")
		c := &kerneltest.Case{Name: "random", Kind: op.Einsum, Out: []graph.DType{dt}}
		text, used := "", []byte(nil)
		for i, term := range terms {
			if i > 0 {
				text += ","
			}
			text, used = text+string(term), append(used, term...)
			shape := []int{}
			for _, l := range term {
				shape = append(shape, dims[l-'a'])
			}
			x := counted(dt, shape...)
			if dt == graph.Float32 {
				x = drawNormals(t, dt, shape...)
			}
			c.In = append(c.In, x)
		}
		slices.Sort(used)
		result := ""
		for _, l := range rapid.Permutation(slices.Compact(used)).Draw(t, "order") {
			if rapid.Bool().Draw(t, "kept") {
				result += string(rune(l))
			}
		}
		c.Attrs = []graph.Attr{kerneltest.Attr("equation", text+"->"+result)}
		nearHost(t, d, c, 1e-4)
	})
}

// TestTopKLikeHost: what is chosen, and in which order, is the same bit for bit; values repeat.
func TestTopKLikeHost(t *testing.T) {
	d := device(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 7, 40, 256, 257, 700, 2500}).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		if rapid.Bool().Draw(t, "few") {
			k = min(k, 32)
		}
		rows, inner := drawDim(t, 3, "rows"), drawDim(t, 3, "inner")
		var x *executor.Tensor
		if rapid.Bool().Draw(t, "integers") {
			v := rapid.SliceOfN(rapid.SampledFrom([]int64{-1 << 62, -3, 0, 1, 5, 1 << 40}), rows*n*inner,
				rows*n*inner).Draw(t, "v")
			x = executor.NewTensor(graph.Int64, []int{rows, n, inner}, v...)
		} else {
			x = drawNormals(t, graph.Float16, rows, n, inner)
		}
		c := &kerneltest.Case{Name: "random", Kind: op.TopK, In: []*executor.Tensor{x, integers(int64(k))},
			Out: []graph.DType{x.DType, graph.Int64},
			Attrs: []graph.Attr{kerneltest.Attr("axis", int64(1)),
				kerneltest.Attr("largest", rapid.Int64Range(0, 1).Draw(t, "largest"))}}
		nearHost(t, d, c, 0)
	})
}

// TestNormsLikeHost: norms and softmaxes of random shapes along random axes.
func TestNormsLikeHost(t *testing.T) {
	d := device(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		dt, tol := drawFloat(t)
		shape := []int{drawDim(t, 4, "n"), drawDim(t, 9, "c"), drawDim(t, 9, "h"), drawDim(t, 40, "w")}
		x := drawNormals(t, dt, shape...)
		c := &kerneltest.Case{Name: "random", In: []*executor.Tensor{x}, Out: []graph.DType{dt}}
		axis := rapid.IntRange(0, 3).Draw(t, "axis")
		switch rapid.IntRange(0, 5).Draw(t, "operator") {
		case 0:
			c.Kind = op.MeanVarianceNormalization
			axes := rapid.Permutation([]int64{0, 1, 2, 3}).Draw(t, "axes")[:drawDim(t, 4, "folded")]
			c.Attrs = []graph.Attr{kerneltest.Attr("axes", axes)}
		case 1:
			c.Kind = op.LpNormalization
			c.Attrs = []graph.Attr{kerneltest.Attr("axis", int64(axis)),
				kerneltest.Attr("p", rapid.Int64Range(1, 2).Draw(t, "p"))}
		case 2:
			c.Kind = op.Hardmax
			c.Attrs = []graph.Attr{kerneltest.Attr("axis", int64(axis))}
		case 3:
			c.Kind = op.LRN
			c.Attrs = []graph.Attr{kerneltest.Attr("size", rapid.Int64Range(1, 7).Draw(t, "size")),
				kerneltest.Attr("beta", rapid.SampledFrom([]float32{0.75, 1.5}).Draw(t, "beta")),
				kerneltest.Attr("alpha", float32(0.5))}
		case 4:
			c.Kind = op.BiasSoftmax
			bias := slices.Clone(shape)
			for i := range bias {
				if rapid.Bool().Draw(t, "broadcast") {
					bias[i] = 1
				}
			}
			c.In = append(c.In, drawNormals(t, dt, bias...))
			c.Attrs = []graph.Attr{kerneltest.Attr("axis", int64(axis)),
				kerneltest.Attr("is_inner_broadcast", int64(0))}
		case 5:
			c.Kind = op.GroupNorm
			width, groups := drawDim(t, 5, "width"), drawDim(t, 3, "groups")
			c.In = []*executor.Tensor{drawNormals(t, dt, shape[0], shape[1], shape[2], width*groups),
				drawNormals(t, graph.Float32, width*groups), drawNormals(t, graph.Float32, width*groups)}
			c.Attrs = []graph.Attr{kerneltest.Attr("groups", int64(groups)),
				kerneltest.Attr("activation", rapid.Int64Range(0, 1).Draw(t, "swish"))}
			tol *= 4 // groups of few elements may have a small deviation
		}
		nearHost(t, d, c, tol)
	})
}
