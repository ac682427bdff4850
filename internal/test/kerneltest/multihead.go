package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(multiHeadCases) }

// productAttend is softmax(scale*Q*K' + mask) * V for operands [batch, heads, seq, size].
func productAttend(q, k, v productWide, scale float64, mask func(i []int) float64) productWide {
	scores := productMatMul(q, k.swapped())
	scores = productEach(scores.shape, func(i []int) float64 { return scale*scores.at(i) + mask(i) })
	return productMatMul(productSoftmax(scores), v)
}

// multiHeadCase describes a case of com.microsoft's Attention or MultiHeadAttention.
type multiHeadCase struct {
	name                         string
	d                            graph.DType
	b, heads, sq, sk, size, vize int
	form                         string // of query, key and value: "", "qkv", "kv", "separate", "project"
	bias, causal, present        bool
	past                         int // -1 without a cache
	padding                      []int
	scoreBias                    []int
	scale, filter                float32
}

// columns returns the columns first..first+n-1 of each row of [batch, seq, columns].
func (w productWide) columns(first, n int) productWide {
	return productEach([]int{w.shape[0], w.shape[1], n}, func(i []int) float64 {
		return w.at([]int{i[0], i[1], first + i[2]})
	})
}

// thing returns [batch, heads, seq, size] of things side by side: [batch, seq, heads, things,
// size].
func (w productWide) thing(n int) productWide {
	return productEach([]int{w.shape[0], w.shape[2], w.shape[1], w.shape[4]}, func(i []int) float64 {
		return w.at([]int{i[0], i[2], i[1], n, i[3]})
	})
}

// mask makes the two masks and returns their addition to the scores.
func (m multiHeadCase) mask() (padding, bias *executor.Tensor, add func(i []int) float64) {
	filter := -10000.0
	if m.filter != 0 {
		filter = float64(m.filter)
	}
	before := max(m.past, 0)
	var wb productWide
	var wp []int32
	if m.scoreBias != nil {
		bias = productTensor(m.d, 9, m.scoreBias...)
		wb = productWiden(bias)
	}
	total := m.sk + before
	if m.padding != nil {
		n := 1
		for _, d := range m.padding {
			n *= d
		}
		for i := range n {
			v := int32((i*3 + i/5) % 4)
			if len(m.padding) == 1 { // ends, then starts
				v = int32(total - i%3)
				if i >= m.b {
					v = int32(i % 2)
				}
			}
			wp = append(wp, v)
		}
		padding = executor.NewTensor(graph.Int32, m.padding, wp...)
	}
	return padding, bias, func(i []int) float64 {
		v, hide := 0.0, false
		switch {
		case len(m.padding) == 1:
			hide = i[3] >= int(wp[i[0]]) || m.padding[0] > m.b && i[3] < int(wp[m.b+i[0]])
		case len(m.padding) == 2:
			hide = wp[i[0]*total+i[3]] == 0
		case len(m.padding) == 3:
			hide = wp[(i[0]*m.sq+i[2])*total+i[3]] == 0
		}
		if hide {
			v += filter
		}
		if m.scoreBias != nil {
			v += wb.at(i)
		}
		if m.causal && i[3] > before+i[2] {
			v = math.Inf(-1)
		}
		return v
	}
}

func (m multiHeadCase) make() Case {
	c := Case{Name: m.name, Kind: op.MultiHeadAttention, Out: []graph.DType{m.d}, Tol: 4 * productTolerance(m.d),
		Attrs: []graph.Attr{Attr("num_heads", int64(m.heads))}}
	padding, scoreBias, mask := m.mask()
	if m.causal {
		c.Attrs = append(c.Attrs, Attr("unidirectional", int64(1)))
	}
	scale := 1 / math.Sqrt(float64(m.size))
	if m.scale != 0 {
		scale, c.Attrs = float64(m.scale), append(c.Attrs, Attr("scale", m.scale))
	}
	if m.filter != 0 {
		c.Attrs = append(c.Attrs, Attr("mask_filter_value", m.filter))
	}
	var q, k, v productWide
	if m.form == "project" {
		q, k, v = m.project(&c)
	} else {
		q, k, v = m.operands(&c)
	}
	if m.past >= 0 {
		pk, pv := productTensor(m.d, 7, m.b, m.heads, m.past, m.size), productTensor(m.d, 8, m.b, m.heads,
			m.past, m.vize)
		k, v = k.behindCache(productWiden(pk)), v.behindCache(productWiden(pv))
		if m.form == "project" {
			both := append(append([]byte(nil), pk.Data...), pv.Data...)
			c.In[4] = &executor.Tensor{DType: m.d, Shape: append([]int{2}, pk.Shape...), Data: both}
		} else {
			c.In[6], c.In[7] = pk, pv
		}
	}
	y := productAttend(q, k, v, scale, mask).beside()
	c.Want = []*executor.Tensor{y.tensor(m.d)}
	if m.form == "project" {
		c.In[3], c.In[5] = padding, scoreBias
		if m.present {
			both := productWide{append([]int{2}, k.shape...), append(append([]float64(nil), k.v...), v.v...)}
			c.Out, c.Want = append(c.Out, m.d), append(c.Want, both.tensor(m.d))
		}
		return c
	}
	c.In[4], c.In[5] = padding, scoreBias
	if m.present {
		c.Out, c.Want = append(c.Out, m.d, m.d), append(c.Want, k.tensor(m.d), v.tensor(m.d))
	}
	return c
}

// operands makes the inputs of MultiHeadAttention, and their values with the bias added.
func (m multiHeadCase) operands(c *Case) (q, k, v productWide) {
	n, d := m.heads, m.d
	c.In = make([]*executor.Tensor, 8)
	switch m.form {
	case "qkv":
		c.In[0] = productTensor(d, 1, m.b, m.sq, n, 3, m.size)
		w := productWiden(c.In[0])
		q, k, v = w.thing(0), w.thing(1), w.thing(2)
	case "kv":
		c.In[0], c.In[1] = productTensor(d, 1, m.b, m.sq, n*m.size), productTensor(d, 2, m.b, m.sk, n, 2, m.size)
		w := productWiden(c.In[1])
		q, k, v = productWiden(c.In[0]).separate(n), w.thing(0), w.thing(1)
	case "separate":
		c.In[0], c.In[1], c.In[2] = productTensor(d, 1, m.b, m.sq, n*m.size), productTensor(d, 2, m.b, n, m.sk, m.size),
			productTensor(d, 3, m.b, n, m.sk, m.vize)
		q, k, v = productWiden(c.In[0]).separate(n), productWiden(c.In[1]), productWiden(c.In[2])
	default:
		c.In[0], c.In[1], c.In[2] = productTensor(d, 1, m.b, m.sq, n*m.size), productTensor(d, 2, m.b, m.sk, n*m.size),
			productTensor(d, 3, m.b, m.sk, n*m.vize)
		q, k, v = productWiden(c.In[0]).separate(n), productWiden(c.In[1]).separate(n),
			productWiden(c.In[2]).separate(n)
	}
	if !m.bias {
		return q, k, v
	}
	c.In[3] = productTensor(d, 4, n*(2*m.size+m.vize))
	bias := productWiden(c.In[3])
	add := func(w productWide, first int) productWide {
		return productEach(w.shape, func(i []int) float64 { return w.at(i) + bias.v[first+i[1]*w.shape[3]+i[3]] })
	}
	q = add(q, 0)
	if m.form != "separate" {
		k, v = add(k, n*m.size), add(v, 2*n*m.size)
	}
	return q, k, v
}

// project makes the inputs of Attention, and computes queries, keys and values.
func (m multiHeadCase) project(c *Case) (q, k, v productWide) {
	const in = 5
	hidden, value := m.heads*m.size, m.heads*m.vize
	c.Kind, c.In = op.AttentionMS, make([]*executor.Tensor, 6)
	c.In[0], c.In[1] = productTensor(m.d, 1, m.b, m.sq, in), productTensor(m.d, 2, in, 2*hidden+value)
	if m.size != m.vize {
		c.Attrs = append(c.Attrs, Attr("qkv_hidden_sizes", []int64{int64(hidden), int64(hidden), int64(value)}))
	}
	w := productMatMul(productWiden(c.In[0]), productWiden(c.In[1]))
	if m.bias {
		c.In[2] = productTensor(m.d, 4, 2*hidden+value)
		bias := productWiden(c.In[2])
		plain := w
		w = productEach(w.shape, func(i []int) float64 { return plain.at(i) + bias.v[i[2]] })
	}
	return w.columns(0, hidden).separate(m.heads), w.columns(hidden, hidden).separate(m.heads),
		w.columns(2*hidden, value).separate(m.heads)
}

func multiHeadCases() []Case {
	base := multiHeadCase{d: graph.Float32, b: 2, heads: 3, sq: 4, sk: 4, size: 6, vize: 6, past: -1}
	var cases []Case
	add := func(name string, edit func(m *multiHeadCase)) {
		m := base
		m.name = name
		edit(&m)
		cases = append(cases, m.make())
	}
	for _, form := range []string{"", "qkv", "kv", "separate", "project"} {
		in := func(edit func(m *multiHeadCase)) func(m *multiHeadCase) {
			return func(m *multiHeadCase) {
				m.form = form
				edit(m)
			}
		}
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16} {
			add(fmt.Sprintf("plain %s %v", form, d), in(func(m *multiHeadCase) { m.d = d }))
			add(fmt.Sprintf("bias %s %v", form, d), in(func(m *multiHeadCase) { m.d, m.bias, m.scale = d, true, 0.25 }))
		}
		add("causal "+form, in(func(m *multiHeadCase) { m.causal = true }))
		add("past "+form, in(func(m *multiHeadCase) { m.causal, m.past, m.present, m.bias = true, 3, true, true }))
		add("past without present "+form, in(func(m *multiHeadCase) { m.past = 3 }))
		add("present "+form, in(func(m *multiHeadCase) { m.present = true }))
		add("padding "+form, in(func(m *multiHeadCase) { m.padding = []int{2, 4} }))
		add("padding of each query "+form, in(func(m *multiHeadCase) { m.padding, m.filter = []int{2, 4, 4}, -50 }))
		add("lengths "+form, in(func(m *multiHeadCase) { m.padding, m.causal = []int{2}, true }))
		add("bias of scores "+form,
			in(func(m *multiHeadCase) { m.scoreBias, m.padding, m.past = []int{1, 3, 4, 7}, []int{2, 7}, 3 }))
		add("empty "+form, in(func(m *multiHeadCase) { m.b = 0 }))
	}
	add("other lengths", func(m *multiHeadCase) { m.sk, m.vize, m.bias = 7, 5, true })
	add("other lengths, separate", func(m *multiHeadCase) { m.sk, m.vize, m.form = 7, 5, "separate" })
	add("ends and starts", func(m *multiHeadCase) { m.form, m.padding = "project", []int{4} })
	add("wide values", func(m *multiHeadCase) { m.form, m.vize = "project", 8 })
	fails := func(name, text string, edit func(m *multiHeadCase), change func(c *Case)) {
		m := base
		edit(&m)
		c := m.make()
		change(&c)
		c.Name, c.Fails, c.Want = name, text, nil
		cases = append(cases, c)
	}
	none := func(*Case) {}
	project := func(m *multiHeadCase) { m.form = "project" }
	fails("heads", "num_heads is 0", func(*multiHeadCase) {}, func(c *Case) { c.Attrs = nil })
	fails("heads that do not divide", "query and key have shapes",
		func(*multiHeadCase) {}, func(c *Case) { c.Attrs = []graph.Attr{Attr("num_heads", int64(4))} })
	fails("mask", "the mask has shape", func(m *multiHeadCase) { m.padding = []int{8} }, none)
	fails("shapes", "do not fit", func(*multiHeadCase) {}, func(c *Case) {
		c.In[2] = productTensor(graph.Float32, 1, 2, 5, 18)
	})
	fails("scores", "output of scores", func(*multiHeadCase) {}, func(c *Case) {
		c.Out = []graph.DType{graph.Float32, graph.Undefined, graph.Undefined, graph.Float32}
	})
	fails("weights", "input and weights", project, func(c *Case) { c.In[1] = productTensor(graph.Float32, 1, 4, 54) })
	fails("columns of weights", "columns for queries",
		project, func(c *Case) { c.In[1] = productTensor(graph.Float32, 1, 5, 53) })
	fails("rotary", "do_rotary", project, func(c *Case) { c.Attrs = append(c.Attrs, Attr("do_rotary", int64(1))) })
	return cases
}
