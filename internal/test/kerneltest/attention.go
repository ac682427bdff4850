package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(attentionCases) }

// productAttention is a case of Attention in the making. Its operands have rank 4.
type productAttention struct {
	name                           string
	b, hq, hkv, sq, sk, size, vize int
	past                           int // -1 without a cache
	mask                           []int
	boolMask, causal, packed       bool
	lengths                        []int64
	softcap, scale                 float32 // 0 if left out
	mode                           int
	precision                      int64
	outputs                        int
	version                        int
	d                              graph.DType
}

// separate returns [batch, seq, heads*size] as [batch, heads, seq, size].
func (w productWide) separate(heads int) productWide {
	size := w.shape[2] / heads
	return productEach([]int{w.shape[0], heads, w.shape[1], size}, func(i []int) float64 {
		return w.at([]int{i[0], i[2], i[1]*size + i[3]})
	})
}

// beside is the inverse of separate.
func (w productWide) beside() productWide {
	heads, size := w.shape[1], w.shape[3]
	return productEach([]int{w.shape[0], w.shape[2], heads * size}, func(i []int) float64 {
		return w.at([]int{i[0], i[2] / size, i[1], i[2] % size})
	})
}

// behindCache concatenates along axis 2.
func (w productWide) behindCache(past productWide) productWide {
	n := past.shape[2]
	return productEach([]int{w.shape[0], w.shape[1], n + w.shape[2], w.shape[3]}, func(i []int) float64 {
		if i[2] < n {
			return past.at(i)
		}
		return w.at([]int{i[0], i[1], i[2] - n, i[3]})
	})
}

// grouped repeats the heads of keys and values for n query heads.
func (w productWide) grouped(n int) productWide {
	each := n / w.shape[1]
	return productEach([]int{w.shape[0], n, w.shape[2], w.shape[3]}, func(i []int) float64 {
		return w.at([]int{i[0], i[1] / each, i[2], i[3]})
	})
}

// productSoftmax is the softmax along the last axis; 0 where all elements are -Inf.
func productSoftmax(w productWide) productWide {
	out := productWide{shape: w.shape, v: append([]float64(nil), w.v...)}
	n := w.shape[len(w.shape)-1]
	for at := 0; at < len(out.v); at += max(n, 1) {
		row, sum := out.v[at:at+n], 0.0
		for _, v := range row {
			sum += math.Exp(v)
		}
		for i, v := range row {
			if row[i] = math.Exp(v) / sum; sum == 0 {
				row[i] = 0
			}
		}
	}
	return out
}

// make computes the case by the operator's description, out of MatMul and Softmax.
func (a productAttention) make() Case {
	attrs := []graph.Attr{Attr("qk_matmul_output_mode", int64(a.mode))}
	shape := func(heads, seq, size int) []int {
		if a.packed {
			return []int{a.b, seq, heads * size}
		}
		return []int{a.b, heads, seq, size}
	}
	in := []*executor.Tensor{productTensor(a.d, 1, shape(a.hq, a.sq, a.size)...),
		productTensor(a.d, 2, shape(a.hkv, a.sk, a.size)...),
		productTensor(a.d, 3, shape(a.hkv, a.sk, a.vize)...), nil, nil, nil, nil}
	q, k, v := productWiden(in[0]), productWiden(in[1]), productWiden(in[2])
	if a.packed {
		q, k, v = q.separate(a.hq), k.separate(a.hkv), v.separate(a.hkv)
		attrs = append(attrs, Attr("q_num_heads", int64(a.hq)), Attr("kv_num_heads", int64(a.hkv)))
	}
	before := 0
	if a.past >= 0 {
		in[4], in[5] = productTensor(a.d, 4, a.b, a.hkv, a.past, a.size),
			productTensor(a.d, 5, a.b, a.hkv, a.past, a.vize)
		k, v, before = k.behindCache(productWiden(in[4])), v.behindCache(productWiden(in[5])), a.past
	}
	presentK, presentV := k, v
	total := k.shape[2]
	scale := 1 / math.Sqrt(float64(a.size))
	if a.scale != 0 {
		scale, attrs = float64(a.scale), append(attrs, Attr("scale", a.scale))
	}
	scores := productMatMul(q, k.grouped(a.hq).swapped())
	for i := range scores.v {
		scores.v[i] *= scale
	}
	stages := []productWide{scores}
	if a.softcap != 0 {
		attrs = append(attrs, Attr("softcap", a.softcap))
		limit := float64(a.softcap)
		scores = productEach(scores.shape, func(i []int) float64 { return limit * math.Tanh(scores.at(i)/limit) })
	}
	stages = append(stages, scores)
	if a.mask != nil {
		in[3] = a.maskTensor()
	}
	scores = a.masked(scores, in[3], before, total)
	if a.causal {
		attrs = append(attrs, Attr("is_causal", int64(1)))
	}
	if a.lengths != nil {
		in[6] = executor.NewTensor(graph.Int64, []int{a.b}, a.lengths...)
	}
	if a.precision != 0 {
		attrs = append(attrs, Attr("softmax_precision", a.precision))
	}
	weights := productSoftmax(scores)
	stages = append(stages, scores, weights)
	y := productMatMul(weights, v.grouped(a.hq))
	if a.packed {
		y = y.beside()
	}
	c := Case{Name: a.name, Kind: op.Attention, Opset: a.version, Attrs: attrs, In: in, Tol: 4 * productTolerance(a.d)}
	for _, w := range []productWide{y, presentK, presentV, stages[a.mode]}[:max(a.outputs, 1)] {
		c.Out, c.Want = append(c.Out, a.d), append(c.Want, w.tensor(a.d))
	}
	return c
}

func (a productAttention) maskTensor() *executor.Tensor {
	if a.boolMask {
		n := 1
		for _, d := range a.mask {
			n *= d
		}
		return &executor.Tensor{
			DType: graph.Bool, Shape: a.mask,
			Data: productMemory(n, func(i int) uint8 { return uint8((i*5 + i/7) % 3 & 1) }),
		}
	}
	t := productTensor(a.d, 6, a.mask...)
	return t
}

// masked adds the mask, and -Inf where a query may not look.
func (a productAttention) masked(scores productWide, mask *executor.Tensor, before, total int) productWide {
	var m productWide
	if mask != nil {
		m = productWiden(mask)
	}
	return productEach(scores.shape, func(i []int) float64 {
		v := scores.at(i)
		if mask != nil {
			last := m.shape[len(m.shape)-1]
			switch {
			case i[3] >= last && !(last == 1 && a.version == 23):
				v = math.Inf(-1)
			case !a.boolMask:
				v += m.at(i)
			case m.at(i) == 0:
				v = math.Inf(-1)
			}
		}
		start := before
		if a.lengths != nil && a.past < 0 {
			start = int(a.lengths[i[0]]) - a.sq
		}
		if a.causal && i[3] > start+i[2] || a.lengths != nil && i[3] >= int(a.lengths[i[0]]) {
			v = math.Inf(-1)
		}
		return v
	})
}

func attentionCases() []Case {
	base := productAttention{b: 2, hq: 3, hkv: 3, sq: 4, sk: 6, size: 8, vize: 8, past: -1, version: 24,
		d: graph.Float32}
	var cases []Case
	add := func(name string, edit func(a *productAttention)) {
		a := base
		edit(&a)
		a.name = name
		cases = append(cases, a.make())
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		add(fmt.Sprintf("plain %v", d), func(a *productAttention) { a.d = d })
		add(fmt.Sprintf("everything %v", d), func(a *productAttention) {
			a.d, a.packed, a.hq, a.vize, a.past, a.causal, a.mask, a.softcap, a.outputs, a.mode = d, true, 6, 5, 3,
				true, []int{4, 9}, 2, 4, 2
		})
	}
	add("version 23", func(a *productAttention) { a.version = 23 })
	add("version 23, mask of one column", func(a *productAttention) { a.version, a.mask = 23, []int{4, 1} })
	add("scale", func(a *productAttention) { a.scale = 0.1 })
	add("groups of heads", func(a *productAttention) { a.hq, a.vize = 9, 10 })
	add("packed", func(a *productAttention) { a.packed, a.hq, a.vize = true, 9, 10 })
	add("causal", func(a *productAttention) { a.causal = true })
	add("causal, more queries than keys", func(a *productAttention) { a.causal, a.sq = true, 9 })
	add("presents", func(a *productAttention) { a.outputs, a.packed = 3, true })
	add("past", func(a *productAttention) { a.past, a.causal = 5, true })
	add("past and presents", func(a *productAttention) { a.past, a.causal, a.outputs, a.packed = 5, true, 3, true })
	add("empty past", func(a *productAttention) { a.past, a.outputs = 0, 3 })
	for _, m := range [][]int{{4, 6}, {3, 4, 6}, {2, 1, 4, 6}, {2, 3, 4, 6}, {1, 1, 1, 6}, {4, 5},
		{2, 1, 1, 3}, {4, 1}} {
		for _, isBool := range []bool{false, true} {
			add(fmt.Sprintf("mask %v %v", m, isBool), func(a *productAttention) { a.mask, a.boolMask = m, isBool })
			add(fmt.Sprintf("causal and mask %v %v", m, isBool), func(a *productAttention) {
				a.mask, a.boolMask, a.causal = m, isBool, true
			})
		}
	}
	for mode := range 4 {
		add(fmt.Sprintf("scores %d", mode), func(a *productAttention) {
			a.mode, a.outputs, a.softcap, a.mask, a.causal = mode, 4, 1.5, []int{4, 6}, true
		})
	}
	add("lengths", func(a *productAttention) { a.lengths = []int64{6, 3} })
	add("lengths, causal", func(a *productAttention) {
		a.lengths, a.causal, a.outputs, a.mode = []int64{5, 2}, true, 4, 3
	})
	add("no keys", func(a *productAttention) { a.lengths = []int64{0, 6} })
	add("double softmax", func(a *productAttention) { a.precision = 11 })
	add("float softmax", func(a *productAttention) { a.precision = 1 })
	add("large", func(a *productAttention) { a.sq, a.sk, a.size, a.causal = 100, 90, 32, true })
	add("empty batch", func(a *productAttention) { a.b = 0 })
	add("no queries", func(a *productAttention) { a.sq = 0 })
	add("no keys at all", func(a *productAttention) { a.sk = 0 })
	return append(cases, attentionFaults(base)...)
}

func attentionFaults(base productAttention) []Case {
	var cases []Case
	fails := func(name, text string, edit func(c *Case)) {
		c := base.make()
		edit(&c)
		c.Name, c.Fails, c.Want = name, text, nil
		cases = append(cases, c)
	}
	f := graph.Float32
	fails("rank", "wanted rank 3 or 4", func(c *Case) { c.In[1] = productTensor(f, 1, 2, 3) })
	fails("heads missing", "do not divide", func(c *Case) {
		c.In[0], c.In[1], c.In[2] = productTensor(f, 1, 2, 4, 24), productTensor(f, 1, 2, 6, 24),
			productTensor(f, 1, 2, 6, 24)
	})
	fails("head size", "do not fit", func(c *Case) { c.In[1] = productTensor(f, 1, 2, 3, 6, 7) })
	fails("heads", "multiple of the second", func(c *Case) { c.In[0] = productTensor(f, 1, 2, 4, 4, 8) })
	fails("mask", "the mask, input 3", func(c *Case) { c.In[3] = productTensor(f, 1, 3, 6) })
	fails("mask of rank 0", "the mask, input 3", func(c *Case) { c.In[3] = productTensor(f, 1) })
	fails("half a cache", "only one of past key", func(c *Case) { c.In[4] = productTensor(f, 1, 2, 3, 1, 8) })
	fails("cache", "past key and value have shapes", func(c *Case) {
		c.In[4], c.In[5] = productTensor(f, 1, 2, 3, 1, 8), productTensor(f, 1, 2, 3, 2, 8)
	})
	fails("lengths", "wanted [2]", func(c *Case) { c.In[6] = executor.NewTensor[int64](graph.Int64, []int{1}, 3) })
	fails("too long", "has 7 keys; there are 6", func(c *Case) {
		c.In[6] = executor.NewTensor[int64](graph.Int64, []int{2}, 3, 7)
	})
	fails("mode", "wanted 0 to 3", func(c *Case) { c.Attrs = []graph.Attr{Attr("qk_matmul_output_mode", int64(4))} })
	fails("lengths before version 24", "input 6 has type", func(c *Case) {
		c.Opset, c.In[6] = 23, executor.NewTensor[int64](graph.Int64, []int{2}, 3, 6)
	})
	return cases
}
