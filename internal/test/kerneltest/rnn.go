package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(rnnCases) }

// rnnRef computes a recurrence element by element, as the operators' documents write it, with batch
// in the second place.
type rnnRef struct {
	kind                      graph.Kind
	gates, t, b, in, hid, dir int
	reverse                   []bool
	act                       []func(float64) float64 // of all directions
	clip                      float64
	couple, linear            bool
	lens                      []int // nil means all t

	x, w, r, bias, h0, c0, p []float64 // bias, h0, c0 and p may be nil
	y, yh, yc                []float64
}

func (k *rnnRef) run() {
	k.y = make([]float64, k.t*k.dir*k.b*k.hid)
	k.yh = append(make([]float64, 0), k.h0...)
	k.yc = append(make([]float64, 0), k.c0...)
	if k.h0 == nil {
		k.yh = make([]float64, k.dir*k.b*k.hid)
	}
	if k.c0 == nil {
		k.yc = make([]float64, k.dir*k.b*k.hid)
	}
	for d := range k.dir {
		for b := range k.b {
			n := k.t
			if k.lens != nil {
				n = k.lens[b]
			}
			for s := range n {
				t := s
				if k.reverse[d] {
					t = n - 1 - s
				}
				at := (d*k.b + b) * k.hid
				h, c := k.yh[at:at+k.hid], k.yc[at:at+k.hid]
				nh, nc := k.cell(d, k.x[(t*k.b+b)*k.in:][:k.in], h, c)
				copy(h, nh)
				copy(c, nc)
				copy(k.y[((t*k.dir+d)*k.b+b)*k.hid:], nh)
			}
		}
	}
}

// dot is row j of gate g of a weight times v.
func (k *rnnRef) dot(w []float64, d, g, j int, v []float64) (s float64) {
	row := (d*k.gates+g)*k.hid + j
	for i, x := range v {
		s += w[row*len(v)+i] * x
	}
	return s
}

// add is bias half of gate g, half being 0 for W's and 1 for R's.
func (k *rnnRef) add(d, half, g, j int) float64 {
	if k.bias == nil {
		return 0
	}
	return k.bias[((d*2+half)*k.gates+g)*k.hid+j]
}

func (k *rnnRef) f(d, i int, x float64) float64 {
	if k.clip > 0 {
		x = math.Max(-k.clip, math.Min(k.clip, x))
	}
	return k.act[d*len(k.act)/k.dir+i](x)
}

func (k *rnnRef) cell(d int, x, h, c []float64) (nh, nc []float64) {
	nh, nc = make([]float64, k.hid), make([]float64, k.hid)
	in := func(g, j int) float64 {
		return k.dot(k.w, d, g, j, x) + k.dot(k.r, d, g, j, h) + k.add(d, 0, g, j) + k.add(d, 1, g, j)
	}
	peep := func(g, j int, c float64) float64 {
		if k.p == nil {
			return 0
		}
		return k.p[(d*3+g)*k.hid+j] * c
	}
	reset := make([]float64, k.hid)
	for j := range nh {
		if k.kind == op.GRU {
			reset[j] = k.f(d, 0, in(1, j)) * h[j]
		}
	}
	for j := range nh {
		switch k.kind {
		case op.RNN:
			nh[j] = k.f(d, 0, in(0, j))
		case op.GRU:
			z := k.f(d, 0, in(0, j))
			g := k.dot(k.w, d, 2, j, x) + k.add(d, 0, 2, j)
			if k.linear {
				g += k.f(d, 0, in(1, j)) * (k.dot(k.r, d, 2, j, h) + k.add(d, 1, 2, j))
			} else {
				g += k.dot(k.r, d, 2, j, reset) + k.add(d, 1, 2, j)
			}
			nh[j] = (1-z)*k.f(d, 1, g) + z*h[j]
		case op.LSTM:
			i := k.f(d, 0, in(0, j)+peep(0, j, c[j]))
			f := 1 - i
			if !k.couple {
				f = k.f(d, 0, in(2, j)+peep(2, j, c[j]))
			}
			nc[j] = f*c[j] + i*k.f(d, 1, in(3, j))
			o := k.f(d, 0, in(1, j)+peep(1, j, nc[j]))
			nh[j] = o * k.f(d, 2, nc[j])
		}
	}
	return nh, nc
}

// rnnSetting is a case in short.
type rnnSetting struct {
	name              string
	kind              graph.Kind
	d                 graph.DType
	t, b, in, hid     int
	direction         string
	bias, init, peep  bool
	lens              []int
	batchFirst        bool
	attrs             []graph.Attr
	clip              float64
	couple, linear    bool
	act               []func(float64) float64
	noY, noH, noC     bool
	opset             int
	directions, gates int
}

func rnnSigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// scaled returns values too small to saturate.
func (s *rnnSetting) scaled(n int, seed uint32) []float64 {
	v := seqValues(n, seed)
	for i := range v {
		v[i] /= 4
	}
	return v
}

func (s rnnSetting) make() Case {
	s.directions, s.gates = 1, map[graph.Kind]int{op.RNN: 1, op.GRU: 3, op.LSTM: 4}[s.kind]
	if s.direction == "" {
		s.direction = "forward"
	}
	if s.direction == "bidirectional" {
		s.directions = 2
	}
	if s.d == graph.Undefined {
		s.d = graph.Float32
	}
	n, rows := s.directions, s.gates*s.hid
	k := &rnnRef{kind: s.kind, gates: s.gates, t: s.t, b: s.b, in: s.in, hid: s.hid, dir: n, act: s.act, clip: s.clip,
		couple: s.couple, linear: s.linear, lens: s.lens,
		x: s.scaled(s.t*s.b*s.in, 1), w: s.scaled(n*rows*s.in, 2), r: s.scaled(n*rows*s.hid, 3)}
	k.reverse = map[string][]bool{"forward": {false}, "reverse": {true}, "bidirectional": {false, true}}[s.direction]
	if k.act == nil {
		each := map[graph.Kind][]func(float64) float64{op.RNN: {math.Tanh}, op.GRU: {rnnSigmoid, math.Tanh},
			op.LSTM: {rnnSigmoid, math.Tanh, math.Tanh}}[s.kind]
		for range n {
			k.act = append(k.act, each...)
		}
	}
	if s.bias {
		k.bias = s.scaled(n*2*rows, 4)
	}
	if s.init {
		k.h0 = s.scaled(n*s.b*s.hid, 5)
		if s.kind == op.LSTM {
			k.c0 = s.scaled(n*s.b*s.hid, 6)
		}
	}
	if s.peep {
		k.p = s.scaled(n*3*s.hid, 7)
	}
	k.run()
	return s.build(k)
}

// build makes the case.
func (s *rnnSetting) build(k *rnnRef) Case {
	n, rows := s.directions, s.gates*s.hid
	c := Case{
		Name: s.name, Kind: s.kind, Opset: s.opset,
		Attrs: append([]graph.Attr{Attr("direction", s.direction), Attr("hidden_size", int64(s.hid))}, s.attrs...),
	}
	if c.Tol = 10 * seqTol(s.d); s.d == graph.Float16 {
		c.Tol = seqTol(s.d)
	}
	tensor := func(v []float64, shape ...int) *executor.Tensor {
		if v == nil {
			return nil
		}
		if s.batchFirst && len(shape) > 2 {
			v, shape = rnnBatchFirst(v, shape)
		}
		return seqTensor(s.d, shape, v)
	}
	weight := func(v []float64, shape ...int) *executor.Tensor { return seqTensor(s.d, shape, v) }
	c.In = []*executor.Tensor{tensor(k.x, s.t, s.b, s.in), weight(k.w, n, rows, s.in), weight(k.r, n, rows, s.hid),
		tensor(k.bias, n, 2*rows), nil,
		tensor(k.h0, n, s.b, s.hid)}
	if s.kind == op.LSTM {
		c.In = append(c.In, tensor(k.c0, n, s.b, s.hid), tensor(k.p, n, 3*s.hid))
	}
	if s.lens != nil {
		v := make([]float64, len(s.lens))
		for i, l := range s.lens {
			v[i] = float64(l)
		}
		c.In[4] = seqTensor(graph.Int32, []int{s.b}, v)
	}
	c.Want = []*executor.Tensor{tensor(k.y, s.t, n, s.b, s.hid), tensor(k.yh, n, s.b, s.hid)}
	if s.kind == op.LSTM {
		c.Want = append(c.Want, tensor(k.yc, n, s.b, s.hid))
	}
	for i := range c.Want {
		c.Out = append(c.Out, s.d)
		if i == 0 && s.noY || i == 1 && s.noH || i == 2 && s.noC {
			c.Out[i], c.Want[i] = graph.Undefined, nil
		}
	}
	return c
}

// rnnBatchFirst moves the batch, the last but one dim (of X: the second), to the front.
func rnnBatchFirst(v []float64, shape []int) ([]float64, []int) {
	axis := len(shape) - 2
	before, b, after := seqCount(shape[:axis]), shape[axis], seqCount(shape[axis+1:])
	out := make([]float64, len(v))
	for i := range before {
		for j := range b {
			copy(out[(j*before+i)*after:][:after], v[(i*b+j)*after:])
		}
	}
	dims := append([]int{b}, shape[:axis]...)
	return out, append(dims, shape[axis+1:]...)
}

// rnnCases go through attributes and operands.
func rnnCases() []Case {
	var cs []Case
	for _, kind := range []graph.Kind{op.RNN, op.GRU, op.LSTM} {
		base := rnnSetting{kind: kind, t: 4, b: 3, in: 5, hid: 6}
		with := func(name string, change func(*rnnSetting)) {
			s := base
			s.name = name
			change(&s)
			cs = append(cs, s.make())
		}
		for _, d := range seqFloats() {
			with(d.String(), func(s *rnnSetting) { s.d, s.bias, s.init = d, true, true })
			with("bidirectional "+d.String(), func(s *rnnSetting) {
				s.d, s.bias, s.direction = d, true, "bidirectional"
			})
		}
		with("plain", func(s *rnnSetting) {})
		with("reverse", func(s *rnnSetting) { s.direction, s.init = "reverse", true })
		with("lengths", func(s *rnnSetting) { s.lens, s.init, s.bias = []int{4, 0, 2}, true, true })
		with("lengths, reverse", func(s *rnnSetting) { s.lens, s.init, s.direction = []int{1, 4, 3}, true, "reverse" })
		with("operator set 7", func(s *rnnSetting) { s.opset, s.bias = 7, true })
		layout := []graph.Attr{Attr("layout", int64(1))}
		with("batch first", func(s *rnnSetting) {
			s.batchFirst, s.attrs, s.direction, s.init, s.bias, s.lens = true, layout, "bidirectional", true, true,
				[]int{4, 1, 2}
		})
		with("clip", func(s *rnnSetting) {
			s.clip, s.init, s.bias, s.attrs = 0.25, true, true, []graph.Attr{Attr("clip", float32(0.25))}
		})
		with("only Y", func(s *rnnSetting) { s.noH, s.noC = true, true })
		with("only Y_h", func(s *rnnSetting) { s.noY, s.noC = true, true })
		with("no batch", func(s *rnnSetting) { s.b = 0 })
		with("no steps", func(s *rnnSetting) { s.t, s.init = 0, true })
		with("no inputs", func(s *rnnSetting) { s.in, s.bias = 0, true })
		with("large", func(s *rnnSetting) { s.t, s.b, s.in, s.hid, s.bias = 3, 12, 40, 300, true })
	}
	cs = append(cs, rnnSpecials()...)
	return append(append(cs, rnnFunctionCases()...), rnnWrong()...)
}

// rnnSpecials are cases for features that only one kind has.
func rnnSpecials() []Case {
	lstm := rnnSetting{kind: op.LSTM, t: 3, b: 2, in: 4, hid: 5, bias: true, init: true}
	gru := lstm
	gru.kind = op.GRU
	var cs []Case
	peep := lstm
	peep.name, peep.peep, peep.direction = "peepholes", true, "bidirectional"
	couple := peep
	couple.name, couple.couple, couple.attrs = "coupled gates", true, []graph.Attr{Attr("input_forget", int64(1))}
	onlyC := lstm
	onlyC.name, onlyC.noY, onlyC.noH = "only Y_c", true, true
	cs = append(cs, peep.make(), couple.make(), onlyC.make())
	linear := []graph.Attr{Attr("linear_before_reset", int64(1))}
	for _, d := range seqFloats()[:2] {
		g := gru
		g.name, g.d, g.linear, g.attrs, g.direction = "linear before reset "+d.String(), d, true, linear,
			"bidirectional"
		cs = append(cs, g.make())
		g.name, g.bias, g.lens = "linear before reset, lengths "+d.String(), false, []int{1, 3}
		cs = append(cs, g.make())
	}
	big := gru
	big.name, big.linear, big.attrs, big.b, big.hid = "large, linear before reset", true, linear, 12, 300
	return append(cs, big.make())
}

// rnnFunctionCases go through the activation functions, with and without parameters.
func rnnFunctionCases() []Case {
	relu := func(x float64) float64 { return math.Max(x, 0) }
	leaky := func(a float64) func(float64) float64 {
		return func(x float64) float64 { return math.Max(x, 0) + a*math.Min(x, 0) }
	}
	elu := func(x float64) float64 { return math.Max(x, 0) + 0.5*(math.Exp(math.Min(x, 0))-1) }
	threshold := func(x float64) float64 {
		if x >= 0.125 {
			return x
		}
		return 0
	}
	hard := func(x float64) float64 { return math.Max(0, math.Min(1, 0.25*x+0.5)) }
	var cs []Case
	rnn := func(name string, alpha, beta []float32, f func(float64) float64) {
		s := rnnSetting{name: "activation " + name, kind: op.RNN, t: 2, b: 2, in: 3, hid: 4, bias: true,
			act: []func(float64) float64{f},
			attrs: []graph.Attr{Attr("activations", []string{name}), Attr("activation_alpha", alpha),
				Attr("activation_beta", beta)}}
		cs = append(cs, s.make())
		s.d = graph.Float64
		s.name += " double"
		cs = append(cs, s.make())
	}
	rnn("Relu", nil, nil, relu)
	rnn("tanh", nil, nil, math.Tanh)
	rnn("Sigmoid", nil, nil, rnnSigmoid)
	rnn("Affine", []float32{0.5}, []float32{0.25}, func(x float64) float64 { return 0.5*x + 0.25 })
	rnn("LeakyRelu", []float32{0.125}, nil, leaky(0.125))
	rnn("ThresholdedRelu", []float32{0.125}, nil, threshold)
	rnn("ScaledTanh", []float32{0.5}, []float32{2}, func(x float64) float64 { return 0.5 * math.Tanh(2*x) })
	rnn("HardSigmoid", []float32{0.25}, []float32{0.5}, hard)
	rnn("Elu", []float32{0.5}, nil, elu)
	rnn("Softsign", nil, nil, func(x float64) float64 { return x / (1 + math.Abs(x)) })
	rnn("Softplus", nil, nil, func(x float64) float64 { return math.Log(1 + math.Exp(x)) })
	defaults := rnnSetting{name: "activation defaults", kind: op.RNN, t: 2, b: 2, in: 3, hid: 4,
		act:   []func(float64) float64{leaky(float64(float32(0.01)))},
		attrs: []graph.Attr{Attr("activations", []string{"LeakyRelu"})}}
	// Tanh has no alpha, so the first goes to LeakyRelu and the second to Elu.
	order := rnnSetting{name: "parameters in order", kind: op.LSTM, t: 2, b: 2, in: 3, hid: 4,
		act: []func(float64) float64{math.Tanh, leaky(0.25), elu},
		attrs: []graph.Attr{Attr("activations", []string{"Tanh", "LeakyRelu", "Elu"}),
			Attr("activation_alpha", []float32{0.25, 0.5})}}
	return append(cs, defaults.make(), order.make())
}

// rnnWrong are nodes that must fail.
func rnnWrong() []Case {
	base := rnnSetting{kind: op.LSTM, t: 2, b: 2, in: 3, hid: 4, bias: true, init: true, lens: []int{1, 2}}
	attr := func(name, want string, key string, value any) Case {
		c := base.make()
		for i := range c.Attrs {
			if c.Attrs[i].Name == key {
				c.Attrs[i].Value = value
			}
		}
		c.Attrs = append(c.Attrs, Attr(key, value))
		return seqFails(c, name, want)
	}
	input := func(name, want string, slot int, t *executor.Tensor) Case {
		c := base.make()
		c.In[slot] = t
		return seqFails(c, name, want)
	}
	zeros := func(d graph.DType, shape ...int) *executor.Tensor {
		return seqTensor(d, shape, make([]float64, seqCount(shape)))
	}
	return []Case{
		attr("direction", "attribute direction", "direction", "both"),
		attr("activations", "wanted 3 names", "activations", []string{"Tanh"}),
		attr("function", `no function "Sin"`, "activations", []string{"Sin", "Tanh", "Tanh"}),
		attr("clip", "attribute clip", "clip", float32(-1)),
		attr("layout", "attribute layout", "layout", int64(2)),
		attr("hidden size", "attribute hidden_size is 5", "hidden_size", int64(5)),
		input("rank of X", "wanted rank 3", 0, zeros(graph.Float32, 2, 2)),
		input("size of W", "input 1 is", 1, zeros(graph.Float32, 1, 16, 2)),
		input("size of R", "is", 2, zeros(graph.Float32, 1, 15, 4)),
		input("size of B", "input 3 is", 3, zeros(graph.Float32, 1, 16)),
		input("lengths' number", "input 4, the sequences' lengths, is", 4, zeros(graph.Int32, 3)),
		input("length", "sequence 1 has length 3", 4, seqTensor(graph.Int32, []int{2}, []float64{1, 3})),
		input("length below 0", "sequence 0 has length -1", 4, seqTensor(graph.Int32, []int{2}, []float64{-1, 1})),
		input("lengths' type", "input 4 has type int64", 4, zeros(graph.Int64, 2)),
		input("state", "input 5 is", 5, zeros(graph.Float32, 2, 2, 4)),
		input("types", "input 6 has type double", 6, zeros(graph.Float64, 1, 2, 4)),
	}
}
