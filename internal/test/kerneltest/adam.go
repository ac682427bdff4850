package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(adamCases) }

// adamSetting is a step of Adam in short. Types are those of the weight, the gradient and the
// moments.
type adamSetting struct {
	name            string
	w, g, m         graph.DType
	n               int
	count           int64
	mode            int64
	lambda          float64
	uncorrected     bool
	scale, norm     float64 // 0 if left out
	mixed           graph.DType
	signal          *bool
	delta, noWeight bool
}

func (s adamSetting) make() Case {
	const rate, alpha, beta, epsilon = 0.25, 0.875, 0.96875, 0.0078125
	w, g, m := seqValues(s.n, 1), seqValues(s.n, 2), seqValues(s.n, 3)
	v, h, d := seqValues(s.n, 4), seqValues(s.n, 5), append([]float64(nil), g...)
	for i := range v {
		v[i] = math.Abs(v[i])
	}
	one := func(d graph.DType, v float64) *executor.Tensor { return seqTensor(d, []int{}, []float64{v}) }
	shape := []int{s.n}
	c := Case{Name: s.name, Kind: op.AdamOptimizer,
		Attrs: []graph.Attr{Attr("alpha", float32(alpha)), Attr("beta", float32(beta)),
			Attr("lambda", float32(s.lambda)),
			Attr("epsilon", float32(epsilon)), Attr("max_norm_clip", float32(2)), Attr("weight_decay_mode", s.mode)}}
	if s.uncorrected {
		c.Attrs = append(c.Attrs, Attr("do_bias_correction", int64(0)))
	}
	c.In = []*executor.Tensor{one(graph.Float32, rate), seqTensor(graph.Int64, []int{}, []float64{float64(s.count)}),
		seqTensor(s.w, shape, w), seqTensor(s.g, shape, g), seqTensor(s.m, shape, m), seqTensor(s.m, shape, v), nil,
		nil, nil, nil}
	divide := 1.0
	if s.scale != 0 {
		divide = s.scale
		c.In[7] = one(s.w, s.scale)
	}
	if s.norm != 0 {
		if c.In[8] = one(graph.Float32, s.norm); s.norm > divide*2 {
			divide = s.norm / 2
		}
	}
	a, b := 1.0, 1.0
	if !s.uncorrected && s.count > 0 {
		a, b = 1-math.Pow(alpha, float64(s.count)), 1-math.Pow(beta, float64(s.count))
	}
	next := float64(s.count + 1)
	if s.mixed != graph.Undefined {
		c.In[6] = seqTensor(s.mixed, shape, h)
	}
	if s.signal != nil {
		c.In[9] = one(graph.Bool, 0)
		if *s.signal {
			c.In[9].Data[0] = 1
		}
	}
	if s.signal == nil || *s.signal {
		for i := range w {
			x := g[i] / divide
			m[i] = alpha*m[i] + (1-alpha)*x
			v[i] = beta*v[i] + (1-beta)*x*x
			p := rate * math.Sqrt(b) / a * m[i] / (math.Sqrt(v[i]) + epsilon)
			if d[i] = -p - rate*s.lambda*(w[i]-p); s.mode == 0 {
				d[i] = -rate * (m[i]/a/(math.Sqrt(v[i]/b)+epsilon) + s.lambda*w[i])
			}
			w[i] += d[i]
			h[i] = w[i]
		}
	} else {
		next--
	}
	c.Want = []*executor.Tensor{seqTensor(graph.Int64, []int{}, []float64{next}), seqTensor(s.m, shape, m),
		seqTensor(s.m, shape, v),
		seqTensor(s.w, shape, w), seqTensor(s.g, shape, d)}
	if s.mixed != graph.Undefined {
		c.Want = append(c.Want, seqTensor(s.mixed, shape, h))
	}
	for i, t := range c.Want {
		c.Out = append(c.Out, t.DType)
		c.Tol = max(c.Tol, 10*seqTol(t.DType))
		if i == 4 && !s.delta || i == 3 && s.noWeight {
			c.Out[i], c.Want[i] = graph.Undefined, nil
		}
	}
	return c
}

func adamCases() []Case {
	yes, no := true, false
	f32 := adamSetting{w: graph.Float32, g: graph.Float32, m: graph.Float32, n: 700, count: 3, lambda: 0.125,
		delta: true}
	with := func(name string, change func(*adamSetting)) Case {
		s := f32
		s.name = name
		change(&s)
		return s.make()
	}
	cs := []Case{
		with("decay before", func(s *adamSetting) {}),
		with("decay after", func(s *adamSetting) { s.mode = 1 }),
		with("double", func(s *adamSetting) { s.w, s.g, s.m = graph.Float64, graph.Float64, graph.Float64 }),
		with("no bias correction", func(s *adamSetting) { s.uncorrected = true }),
		with("first step", func(s *adamSetting) { s.count = 0 }),
		with("mixed float16", func(s *adamSetting) { s.g, s.m, s.mixed = graph.Float16, graph.Float16, graph.Float16 }),
		with("mixed bfloat16", func(s *adamSetting) { s.g, s.mixed = graph.BFloat16, graph.BFloat16 }),
		with("loss scale", func(s *adamSetting) { s.scale = 8 }),
		with("norm within bounds", func(s *adamSetting) { s.scale, s.norm = 8, 15 }),
		with("norm clipped", func(s *adamSetting) { s.scale, s.norm = 8, 64 }),
		with("update", func(s *adamSetting) { s.signal = &yes }),
		with("no update", func(s *adamSetting) { s.signal, s.mixed = &no, graph.Float16 }),
		with("only weights", func(s *adamSetting) { s.delta = false }),
		with("only moments", func(s *adamSetting) { s.delta, s.noWeight = false, true }),
		with("empty", func(s *adamSetting) { s.n = 0 }),
		with("large", func(s *adamSetting) { s.n = 30001 }),
	}
	input := func(name, want string, slot int, t *executor.Tensor) Case {
		c := f32.make()
		c.In[slot] = t
		return seqFails(c, name, want)
	}
	bad := f32.make()
	bad.Attrs = []graph.Attr{Attr("weight_decay_mode", int64(2))}
	return append(cs, seqFails(bad, "mode 2", "weight_decay_mode is 2"),
		input("gradient's size", "input 3 is", 3, seqTensor(graph.Float32, []int{1}, []float64{1})),
		input("two rates", "input 0 is", 0, seqTensor(graph.Float32, []int{2}, []float64{1, 2})),
		input("count's type", "wanted int64", 1, seqTensor(graph.Int32, []int{}, []float64{1})),
		input("two signals", "input 9", 9, seqTensor(graph.Bool, []int{2}, []float64{1, 1})))
}
