package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(rotaryCases) }

// productRotary turns pairs of x [batch, heads, seq, size] by angle(b, s, i).
func productRotary(x productWide, dim int, interleaved bool, cos, sin func(b, s, i int) float64) productWide {
	half := dim / 2
	return productEach(x.shape, func(i []int) float64 {
		if i[3] >= dim {
			return x.at(i)
		}
		pair, first, second := i[3]%half, i[3]%half, i[3]%half+half
		isFirst := i[3] < half
		if interleaved {
			pair, isFirst = i[3]/2, i[3]%2 == 0
			first, second = 2*pair, 2*pair+1
		}
		u, v := x.at([]int{i[0], i[1], i[2], first}), x.at([]int{i[0], i[1], i[2], second})
		c, s := cos(i[0], i[2], pair), sin(i[0], i[2], pair)
		if isFirst {
			return u*c - v*s
		}
		return u*s + v*c
	})
}

// rotaryCase describes a case; nil positions mean that the angles have an entry per batch entry and
// position.
type rotaryCase struct {
	name                          string
	d                             graph.DType
	batch, heads, seq, size, dim  int
	packed, interleaved, ms, from bool
	headsAttr                     bool
	positions                     []int64
}

func (r rotaryCase) make() Case {
	c := Case{Name: r.name, Kind: op.RotaryEmbedding, Out: []graph.DType{r.d}, Tol: productTolerance(r.d)}
	shape := []int{r.batch, r.heads, r.seq, r.size}
	if r.packed {
		shape = []int{r.batch, r.seq, r.heads * r.size}
	}
	x := productTensor(r.d, 1, shape...)
	dim := r.size
	if r.dim > 0 {
		dim = r.dim
		c.Attrs = append(c.Attrs, Attr("rotary_embedding_dim", int64(dim)))
	}
	if r.headsAttr {
		c.Attrs = append(c.Attrs, Attr("num_heads", int64(r.heads)))
	}
	if r.interleaved {
		c.Attrs = append(c.Attrs, Attr("interleaved", int64(1)))
	}
	table := []int{r.batch, r.seq, dim / 2}
	var pos *executor.Tensor
	if r.positions != nil {
		table = []int{12, dim / 2}
		ps := []int{r.batch, r.seq}
		if r.from {
			ps = []int{1}
		}
		pos = executor.NewTensor(graph.Int64, ps, r.positions...)
	}
	cos := productOf(r.d, table, func(i int) float64 { return math.Cos(float64(i)) })
	sin := productOf(r.d, table, func(i int) float64 { return math.Sin(float64(i)) })
	c.In = []*executor.Tensor{x, cos, sin, pos}
	if r.ms {
		c.Kind, c.In = op.RotaryEmbeddingMS, []*executor.Tensor{x, pos, cos, sin}
	}
	look := func(t *executor.Tensor) func(b, s, i int) float64 {
		w := productWiden(t)
		return func(b, s, i int) float64 {
			switch {
			case r.from:
				return w.at([]int{int(r.positions[0]) + s, i})
			case r.positions != nil:
				return w.at([]int{int(r.positions[b*r.seq+s]), i})
			}
			return w.at([]int{b, s, i})
		}
	}
	w := productWiden(x)
	if r.packed {
		w = w.separate(r.heads)
	}
	want := productRotary(w, dim, r.interleaved, look(cos), look(sin))
	if r.packed {
		want = want.beside()
	}
	c.Want = []*executor.Tensor{want.tensor(r.d)}
	return c
}

func rotaryCases() []Case {
	var cases []Case
	base := rotaryCase{batch: 2, heads: 3, seq: 4, size: 8}
	some := []int64{0, 3, 11, 5, 1, 1, 2, 7}
	add := func(name string, edit func(r *rotaryCase)) Case {
		r := base
		r.name, r.d = name, graph.Float32
		edit(&r)
		cases = append(cases, r.make())
		return cases[len(cases)-1]
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for bits := range 16 {
			add(fmt.Sprintf("%v %04b", d, bits), func(r *rotaryCase) {
				r.d, r.packed, r.headsAttr, r.interleaved = d, bits&1 != 0, bits&1 != 0, bits&2 != 0
				if bits&4 != 0 {
					r.dim = 4
				}
				if bits&8 != 0 {
					r.positions = some
				}
			})
		}
	}
	for bits := range 16 {
		add(fmt.Sprintf("of Microsoft %04b", bits), func(r *rotaryCase) {
			r.ms, r.packed, r.interleaved, r.positions = true, bits&1 != 0, bits&2 != 0, some
			if bits&4 != 0 {
				r.dim, r.headsAttr = 4, true
			}
			if bits&8 != 0 {
				r.positions, r.from = []int64{5}, true
			}
		})
	}
	add("large", func(r *rotaryCase) { r.seq, r.size, r.heads = 100, 64, 4 })
	add("empty", func(r *rotaryCase) { r.batch = 0 })
	fails := func(name, text string, edit func(c *Case)) {
		r := base
		r.name, r.d, r.positions = name, graph.Float32, some
		c := r.make()
		edit(&c)
		c.Fails, c.Want = text, nil
		cases = append(cases, c)
	}
	f := graph.Float32
	fails("rank", "wanted rank 3 or 4", func(c *Case) { c.In[0] = productTensor(f, 1, 3, 4) })
	fails("no heads", "does not divide", func(c *Case) { c.In[0] = productTensor(f, 1, 2, 4, 24) })
	fails("odd size", "even number", func(c *Case) { c.In[0] = productTensor(f, 1, 2, 3, 4, 7) })
	fails("odd attribute", "second even", func(c *Case) {
		c.Attrs = []graph.Attr{Attr("rotary_embedding_dim", int64(3))}
	})
	fails("position", "position 12; input 1 has 12", func(c *Case) {
		c.In[3] = executor.NewTensor[int64](graph.Int64, []int{2, 4}, 0, 0, 0, 0, 0, 12, 0, 0)
	})
	fails("negative position", "position -1", func(c *Case) {
		c.In[3] = executor.NewTensor[int64](graph.Int64, []int{2, 4}, 0, 0, 0, 0, 0, -1, 0, 0)
	})
	fails("positions", "wanted [2 4]", func(c *Case) { c.In[3] = executor.NewTensor[int64](graph.Int64, []int{1}, 0) })
	fails("angles", "4 in the last dim", func(c *Case) { c.In[1] = productTensor(f, 1, 12, 3) })
	fails("angles of rank 2", "as there are no positions", func(c *Case) { c.In[3] = nil })
	fails("angles of rank 3", "as there are positions", func(c *Case) {
		c.In[1], c.In[2] = productTensor(f, 1, 2, 4, 4), productTensor(f, 1, 2, 4, 4)
	})
	return cases
}
