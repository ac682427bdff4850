package autograd_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/symbolic"
)

// gradCase is a forward graph whose gradients are checked by finite differences in float64: the
// graph's float outputs, each times a random tensor, are the loss; every float input and
// initializer that Wrt names, or all float inputs, are moved.
type gradCase struct {
	Name string
	// Graph is the text of the graph, `g (double[N, 3] x) => (double[N, 3] y) { y = Relu(x) }`;
	// without a header, operator set Opset (0: 17) is imported.
	Graph string
	Opset int64
	Dims  symbolic.Env
	// In gives inputs their data; those that it leaves out are drawn: floats from Range (default
	// [-2, 2]), at least 0.05 apart from 0 so that kinks there are not met.
	In    map[string]*executor.Tensor
	Range [2]float64
	Wrt   []string
	// Tol bounds |analytic - numeric| ≤ Tol*(1+|numeric|); 0: 1e-5.
	Tol float64
	// Fails is a part of the wanted error message of Differentiate; "": it succeeds.
	Fails string
	model *graph.Model // in place of Graph
	// Seeds is the number of random draws; 0: 2.
	Seeds int
}

// checkGradients runs cases.
func checkGradients(t *testing.T, cases []gradCase) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			for seed := range uint64(max(c.Seeds, 1+len(c.Name)%2)) {
				c.check(t, seed)
			}
		})
	}
}

func (c *gradCase) parse(t *testing.T) *graph.Model {
	t.Helper()
	if c.model != nil {
		return c.model.Clone()
	}
	opset := c.Opset
	if opset == 0 {
		opset = 17
	}
	text := c.Graph
	if text[0] != '<' {
		text = fmt.Sprintf(`<ir_version: 8, opset_import: ["" : %d, "com.microsoft" : 1]> %s`, opset, text)
	}
	m, err := graph.Parse(text, c.Name)
	require.NoError(t, err)
	return m
}

func (c *gradCase) check(t *testing.T, seed uint64) {
	t.Helper()
	m := c.parse(t)
	opts := autograd.Options{Wrt: c.Wrt}
	if opts.Wrt == nil {
		opts.Wrt = []string{}
		for _, d := range m.Graph.Inputs {
			if d.Type.DType.IsFloat() {
				opts.Wrt = append(opts.Wrt, m.Graph.Values[d.Value].Name)
			}
		}
	}
	for _, d := range m.Graph.Outputs {
		if d.Type.DType.IsFloat() {
			opts.Losses = append(opts.Losses, autograd.Loss{Name: m.Graph.Values[d.Value].Name, Seed: true})
		}
	}
	j, err := autograd.Differentiate(m, opts)
	if c.Fails != "" {
		require.ErrorContains(t, err, c.Fails)
		return
	}
	require.NoError(t, err)
	require.NoError(t, graph.NewNames(m).Verify(j.Model))
	rng := rand.New(rand.NewPCG(seed, 99))
	in := c.inputs(t, m, rng)
	forward := newRunner(t, m, c.Dims)
	outs := forward(in)
	seeds := map[string]*executor.Tensor{}
	var floats []*executor.Tensor
	for _, o := range outs {
		if o.DType.IsFloat() {
			floats = append(floats, o)
		}
	}
	for i, l := range opts.Losses {
		g := &executor.Tensor{DType: graph.Float64, Shape: floats[i].Shape, Data: make([]byte, len(floats[i].Data))}
		for k := range executor.Of[float64](g) {
			executor.Of[float64](g)[k] = rng.NormFloat64()
		}
		seeds[l.Name] = g
	}
	joint := map[string]*executor.Tensor{}
	for name, x := range in {
		joint[name] = x
	}
	for name, g := range seeds {
		joint[name+autograd.SeedSuffix] = g
	}
	results := newRunner(t, j.Model, c.Dims)(joint)
	require.Len(t, results, len(m.Graph.Outputs)+len(opts.Wrt))
	loss := func() float64 {
		var sum float64
		k := 0
		for i, out := range forward(in) {
			if !m.Graph.Outputs[i].Type.DType.IsFloat() {
				continue
			}
			g := executor.Of[float64](seeds[opts.Losses[k].Name])
			for e, v := range executor.Of[float64](out) {
				sum += v * g[e]
			}
			k++
		}
		return sum
	}
	tol := c.Tol
	if tol == 0 {
		tol = 1e-5
	}
	for i, name := range opts.Wrt {
		c.compare(t, name, in[name], results[len(m.Graph.Outputs)+i], loss, tol, rng, seed)
	}
	noteCompared(m.Graph, opts.Wrt)
}

// compare takes the central difference in up to 24 elements of an input.
func (c *gradCase) compare(
	t *testing.T, name string, x, grad *executor.Tensor, loss func() float64, tol float64, rng *rand.Rand, seed uint64,
) {
	t.Helper()
	require.Equal(t, x.Shape, grad.Shape, "shape of the gradient of %s", name)
	elems, got := executor.Of[float64](x), executor.Of[float64](grad)
	places := rng.Perm(len(elems))
	const eps = 1e-5
	for _, e := range places[:min(24, len(places))] {
		old := elems[e]
		elems[e] = old + eps
		up := loss()
		elems[e] = old - eps
		down := loss()
		elems[e] = old
		want := (up - down) / (2 * eps)
		if !(math.Abs(got[e]-want) <= tol*(1+math.Abs(want))) {
			t.Fatalf("seed %d: the gradient of %s[%d] is %v, finite differences say %v", seed, name, e, got[e], want)
		}
	}
}

// inputs draws what the case does not give. Initializers that are moved must be inputs.
func (c *gradCase) inputs(t *testing.T, m *graph.Model, rng *rand.Rand) map[string]*executor.Tensor {
	in := map[string]*executor.Tensor{}
	lo, hi := c.Range[0], c.Range[1]
	if lo == hi {
		lo, hi = -2, 2
	}
	for _, d := range m.Graph.Inputs {
		name := m.Graph.Values[d.Value].Name
		if x := c.In[name]; x != nil {
			in[name] = &executor.Tensor{DType: x.DType, Shape: x.Shape, Data: append([]byte(nil), x.Data...)}
			continue
		}
		shape := executor.EvalShape(d.Type, c.Dims)
		require.NotNil(t, shape, "bind the dims of %s", name)
		require.Equal(t, graph.Float64, d.Type.DType, "input %s: give its data", name)
		n, _ := executor.Bytes(d.Type.DType, shape)
		x := &executor.Tensor{DType: d.Type.DType, Shape: shape, Data: executor.Memory(make([]float64, n/8))}
		for i := range executor.Of[float64](x) {
			v := lo + (hi-lo)*rng.Float64()
			if math.Abs(v) < 0.05 {
				v = math.Copysign(0.05, v) + v
			}
			executor.Of[float64](x)[i] = v
		}
		in[name] = x
	}
	return in
}

// newRunner returns a function that runs a model on the CPU.
func newRunner(t *testing.T, m *graph.Model, dims symbolic.Env) func(map[string]*executor.Tensor) []*executor.Tensor {
	t.Helper()
	types := inferred(t, m)
	var s *executor.Session
	return func(in map[string]*executor.Tensor) []*executor.Tensor {
		t.Helper()
		if s == nil {
			var err error
			s, err = executor.Open(context.Background(), m, types, cpu.Device{},
				executor.Options{Threads: 1, Dims: dims})
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
		}
		for _, d := range m.Graph.Inputs {
			name := m.Graph.Values[d.Value].Name
			require.NoError(t, s.SetInput(name, in[name]))
		}
		require.NoError(t, s.Run(context.Background()))
		var outs []*executor.Tensor
		for i := range m.Graph.Outputs {
			o := s.Output(i)
			outs = append(outs,
				&executor.Tensor{
					DType: o.DType, Shape: append([]int{}, o.Shape...), Data: append([]byte(nil), o.Data...),
				})
		}
		return outs
	}
}
