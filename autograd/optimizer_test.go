package autograd_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

// The wanted numbers come from PyTorch 1.13:
//
//	import torch
//	def run(make, clip=0, dtype=torch.float64):
//	    w = torch.tensor([0.5, -1.0, 2.0], dtype=dtype, requires_grad=True)
//	    b = torch.tensor([0.1, 0.2, -0.3], dtype=dtype, requires_grad=True)
//	    opt = make([w, b])
//	    for k in range(3):
//	        x = torch.tensor([1.0, 2.0, -1.5], dtype=dtype) * (k + 1)
//	        opt.zero_grad()
//	        ((x * w + b) ** 2).sum().backward()
//	        if clip:
//	            torch.nn.utils.clip_grad_norm_([w, b], clip)
//	        opt.step()
//	    print(w.tolist(), b.tolist())
//
// with make = lambda p: torch.optim.SGD(p, lr=0.01) and so on, as the cases say; those of lion from timm 1.0.31, whose
// timm.optim.Lion is its authors'.
var optimizerCases = []struct {
	name string
	o    autograd.Optimizer
	w, b []float64
}{
	{"sgd", autograd.Optimizer{Kind: "sgd", LR: 0.01},
		[]float64{0.3612576, -0.21864, 0.9087707}, []float64{0.0386592, 0.3774, 0.0260754}},
	{"momentum", autograd.Optimizer{Kind: "sgd", LR: 0.01, Momentum: 0.9, WeightDecay: 0.1},
		[]float64{0.3026608875, 0.106950753, 0.452769939},
		[]float64{-0.000511946099999983, 0.4913434278, 0.2371747683}},
	{"nesterov", autograd.Optimizer{Kind: "sgd", LR: 0.01, Momentum: 0.9, Nesterov: true},
		[]float64{0.2106179184, 0.28147704, -0.0773534887}, []float64{-0.0426102672, 0.553647, 0.4143095286}},
	{"clipped", autograd.Optimizer{Kind: "sgd", LR: 0.1, Momentum: 0.5, MaxNorm: 1.5},
		[]float64{0.443597122786641, -0.649357495291608, 1.53491488266669},
		[]float64{0.0633153506591062, 0.31296587050216, -0.0980375032092265}},
	{"clip that does nothing", autograd.Optimizer{Kind: "sgd", LR: 0.001, MaxNorm: 1e6},
		[]float64{0.4849352976, -0.89588136, 1.8709129757}, []float64{0.0934474992, 0.22226484, -0.2627381946}},
	{"adam", autograd.Optimizer{Kind: "adam", LR: 0.1},
		[]float64{0.213252445466687, -0.722265090472078, 1.7222855590107},
		[]float64{-0.199852306640632, 0.494764348742337, -0.00510092209853338}},
	{"adam, decay", autograd.Optimizer{Kind: "adam", LR: 0.1, Beta1: 0.8, Beta2: 0.95, Eps: 1e-3, WeightDecay: 0.2},
		[]float64{0.208183310602107, -0.716559420480179, 1.71644178097634},
		[]float64{-0.200718533439448, 0.49750128374391, -0.00223735398252839}},
	{"adamw", autograd.Optimizer{Kind: "adamw", LR: 0.1, WeightDecay: 0.2},
		[]float64{0.188709759878505, -0.668477471688754, 1.60976438927798},
		[]float64{-0.19991021685732, 0.477676713442223, 0.00716344484958732}},
	{"adamw, clipped", autograd.Optimizer{Kind: "adamw", LR: 0.05, Beta1: 0.8, Beta2: 0.95, WeightDecay: 0.01,
		MaxNorm: 2},
		[]float64{0.350030022941192, -0.848053225847612, 1.84666710185708},
		[]float64{-0.0368363507250079, 0.341252608733674, -0.159161195135165}},
	{"lion", autograd.Optimizer{Kind: "lion", LR: 0.1}, []float64{0.2, -0.7, 1.7}, []float64{-0.2, 0.5, 0}},
	{"lion, decay", autograd.Optimizer{Kind: "lion", LR: 0.3, Beta1: 0.8, Beta2: 0.95, WeightDecay: 0.2},
		[]float64{0.168212, 0.016496, 0.814088}, []float64{-0.1640216, 1.0131968, 0.5979048}},
	{"lion, clipped", autograd.Optimizer{Kind: "lion", LR: 0.3, Beta1: 0.95, Beta2: 0.5, WeightDecay: 0.2,
		MaxNorm: 2}, []float64{-0.431788, 0.016496, 0.814088}, []float64{-0.7640216, 1.0131968, 0.5979048}},
}

// lionStates are the states of w and b behind the cases of lion.
var lionStates = map[string][2][]float64{
	"lion":        {{0.0914412, -0.8599272, 1.1854899}, {0.0436012, -0.1886236, -0.3455066}},
	"lion, decay": {{-0.194662, -1.742788, 4.0499235}, {-0.024544, -0.464378, -1.248063}},
	"lion, clipped": {{-0.0849697823939722, -0.6261997474755, 1.51689925676490},
		{-0.0131992430562566, -0.165915196378194, -0.458871675506375}},
}

// training runs updates of (x*w+b)², summed, in a type.
type training struct {
	t     *testing.T
	dtype graph.DType
	model *graph.Model
	run   func(map[string]*executor.Tensor) []*executor.Tensor
	in    map[string]*executor.Tensor
	out   map[string]*executor.Tensor
}

// newTraining makes the graph; the initial w is an initializer's where given is false.
func newTraining(t *testing.T, dtype graph.DType, o autograd.Optimizer, scale string) *training {
	j, err := autograd.Differentiate(squares(t, dtype),
		autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"w", "b"}, LossScale: scale})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, o))
	tr := &training{t: t, dtype: dtype, model: j.Model, in: map[string]*executor.Tensor{}}
	for _, d := range j.Model.Graph.Inputs {
		shape := executor.EvalShape(d.Type, nil)
		n, _ := executor.Bytes(d.Type.DType, shape)
		tr.in[j.Model.Graph.ValueName(d.Value)] = &executor.Tensor{
			DType: d.Type.DType, Shape: shape, Data: make([]byte, n),
		}
	}
	tr.set("w", 0.5, -1, 2)
	tr.set("b", 0.1, 0.2, -0.3)
	tr.set("y_grad_seed", 1, 1, 1)
	tr.run = newRunner(t, j.Model, nil)
	return tr
}

// squares is the graph of (x*w+b)² in a type.
func squares(t *testing.T, dtype graph.DType) *graph.Model {
	text := `<ir_version: 8, opset_import: ["" : 17]> g (T[3] x, T[3] w, T[3] b) => (T[3] y) {
		xw = Mul(x, w)  a = Add(xw, b)  y = Mul(a, a) }`
	m, err := graph.Parse(strings.ReplaceAll(text, "T[", dtype.String()+"["), "training")
	require.NoError(t, err)
	return m
}

// set gives an input its elements.
func (tr *training) set(name string, v ...float64) {
	x := tr.in[name]
	require.NotNil(tr.t, x, "input %s", name)
	for i, e := range v {
		switch x.DType {
		case graph.Float64:
			executor.Of[float64](x)[i] = e
		case graph.Float32:
			executor.Of[float32](x)[i] = float32(e)
		case graph.Float16:
			executor.Of[uint16](x)[i] = uint16(half.Float16From(float32(e)))
		}
	}
}

// get returns the elements of an input.
func (tr *training) get(name string) []float64 {
	x := tr.in[name]
	out := make([]float64, x.Len())
	for i := range out {
		switch x.DType {
		case graph.Float64:
			out[i] = executor.Of[float64](x)[i]
		case graph.Float32:
			out[i] = float64(executor.Of[float32](x)[i])
		case graph.Float16:
			out[i] = float64(half.Float16(executor.Of[uint16](x)[i]).Float32())
		}
	}
	return out
}

// update makes step k (from 0) and feeds back what it gives.
func (tr *training) update(k int) {
	f := float64(k + 1)
	tr.set("x", f, 2*f, -1.5*f)
	tr.out = map[string]*executor.Tensor{}
	for i, x := range tr.run(tr.in) {
		name := tr.model.Graph.ValueName(tr.model.Graph.Outputs[i].Value)
		tr.out[name] = x
		if input, ok := strings.CutSuffix(name, autograd.NewSuffix); ok {
			require.Contains(tr.t, tr.in, input)
			require.Equal(tr.t, tr.in[input].DType, x.DType)
			tr.in[input] = x
		}
	}
}

func (tr *training) want(w, b []float64, tol float64) {
	tr.t.Helper()
	require.InDeltaSlice(tr.t, w, tr.get("w"), tol)
	require.InDeltaSlice(tr.t, b, tr.get("b"), tol)
}

// TestOptimizers: three steps, in double and float, and in float16 with a loss scale.
func TestOptimizers(t *testing.T) {
	for _, c := range optimizerCases {
		t.Run(c.name, func(t *testing.T) {
			for _, v := range []struct {
				dtype graph.DType
				scale string
				tol   float64
			}{{graph.Float64, "", 1e-12}, {graph.Float32, "", 2e-6}, {graph.Float16, "loss_scale", 1e-2},
				{graph.Float64, "loss_scale", 1e-12}} {
				tr := newTraining(t, v.dtype, c.o, v.scale)
				if v.scale != "" {
					tr.set(v.scale, 256)
				}
				for k := range 3 {
					tr.update(k)
				}
				tr.want(c.w, c.b, v.tol)
				if states, ok := lionStates[c.name]; ok {
					require.InDeltaSlice(t, states[0], tr.get("w_exp_avg"), max(4*v.tol, 1e-7))
					require.InDeltaSlice(t, states[1], tr.get("b_exp_avg"), max(4*v.tol, 1e-7))
				}
				if x := tr.in["step"]; x != nil {
					require.Equal(t, []int64{3}, executor.Of[int64](x))
				}
			}
		})
	}
}

// TestOptimizerRate: the learning rate from outside.
func TestOptimizerRate(t *testing.T) {
	for _, i := range []int{0, 1, 5, 7} {
		c := optimizerCases[i]
		rate := c.o.LR
		c.o.LR = 0
		tr := newTraining(t, graph.Float64, c.o, "")
		tr.set("lr", rate)
		for k := range 3 {
			tr.update(k)
		}
		tr.want(c.w, c.b, 1e-6)
	}
}

// TestOptimizerOverflow: a gradient that is not finite leaves everything as it was.
func TestOptimizerOverflow(t *testing.T) {
	for _, kind := range []string{"adam", "adamw", "lion"} {
		for _, guard := range []bool{false, true} {
			tr := newTraining(t, graph.Float16, autograd.Optimizer{Kind: kind, LR: 0.1, WeightDecay: 0.1, Guard: guard},
				"loss_scale")
			steps := func(n int64) {
				if x := tr.in["step"]; x != nil {
					require.Equal(t, n, executor.Of[int64](x)[0])
				}
			}
			tr.set("loss_scale", 128)
			tr.update(0)
			require.Equal(t, byte(1), tr.out["grads_finite"].Data[0])
			steps(1)
			w, avg := tr.get("w"), tr.get("w_exp_avg")
			tr.set("loss_scale", 65504)
			tr.set("y_grad_seed", 4, 4, 4)
			tr.update(1)
			require.Equal(t, byte(0), tr.out["grads_finite"].Data[0])
			steps(1)
			require.Equal(t, w, tr.get("w"))
			require.Equal(t, avg, tr.get("w_exp_avg"))
		}
	}
}

// TestOptimizerGraph: an initializer becomes an input, the norm is an output, exempt parameters do
// not decay.
func TestOptimizerGraph(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}, float[3] b = {4, 5, 6}> { xw = Mul(x, w)  y = Add(xw, b) }`, "g")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m,
		autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"w", "b"}})
	require.NoError(t, err)
	o := autograd.Optimizer{
		Kind: "sgd", LR: 0.5, WeightDecay: 0.1, MaxNorm: 1, KeepGrads: true,
		NoDecay: func(p string) bool { return p == "b" },
	}
	require.NoError(t, autograd.AppendOptimizer(j, o))
	var ins, outs []string
	for _, d := range j.Model.Graph.Inputs {
		ins = append(ins, j.Model.Graph.ValueName(d.Value))
	}
	for _, d := range j.Model.Graph.Outputs {
		outs = append(outs, j.Model.Graph.ValueName(d.Value))
	}
	require.Equal(t, []string{"x", "y_grad_seed", "w", "b"}, ins)
	require.Equal(t, []string{"y", "w_grad", "b_grad", "grad_norm", "w_new", "b_new"}, outs)
	f := func(v ...float32) *executor.Tensor {
		return &executor.Tensor{DType: graph.Float32, Shape: []int{len(v)}, Data: executor.Memory(v)}
	}
	got := newRunner(t, j.Model,
		nil)(map[string]*executor.Tensor{"x": f(1, 1, 0), "y_grad_seed": f(3, 4, 0), "w": f(1, 2, 3), "b": f(4, 5, 6)})
	norm := math.Sqrt(50)
	require.InDelta(t, norm, executor.Of[float32](got[3])[0], 1e-5)
	for i, w := range []float64{1, 2, 3} {
		g := []float64{3, 4, 0}[i]
		require.InDelta(t, w-0.5*(g/norm+0.1*w), executor.Of[float32](got[4])[i], 1e-5)
		require.InDelta(t, w+3-0.5*g/norm, executor.Of[float32](got[5])[i], 1e-5)
	}
}

// TestOptimizerErrors: what cannot be.
func TestOptimizerErrors(t *testing.T) {
	for _, c := range []struct {
		o    autograd.Optimizer
		want string
	}{
		{autograd.Optimizer{Kind: "lamb"}, "wanted " + autograd.Kinds()},
		{autograd.Optimizer{Kind: "sgd", Nesterov: true}, "needs a momentum"},
		{autograd.Optimizer{Kind: "adam", Momentum: 0.9}, "has no momentum"},
		{autograd.Optimizer{Kind: "lion", Momentum: 0.9}, "has no momentum"},
		{autograd.Optimizer{Kind: "adam", Beta1: 1}, "beta1 is 1; it must be at least 0 and less than 1"},
		{autograd.Optimizer{Kind: "adam", Beta2: -0.5}, "beta2 is -0.5"},
		{autograd.Optimizer{Kind: "sgd", LR: math.NaN()}, "learning rate is NaN"},
		{autograd.Optimizer{Kind: "sgd", LR: -1}, "learning rate is -1; it must be at least 0"},
		{autograd.Optimizer{Kind: "sgd", Momentum: math.Inf(1)}, "momentum is +Inf"},
		{autograd.Optimizer{Kind: "adamw", WeightDecay: -0.1}, "weight decay is -0.1"},
		{autograd.Optimizer{Kind: "sgd", MaxNorm: math.NaN()}, "bound of the norm is NaN"},
		{autograd.Optimizer{Kind: "adam", Eps: -1}, "eps is -1"},
		{autograd.Optimizer{Kind: "sgd"}, `has a value "lr" already`},
	} {
		m, err := graph.Parse(
			`<ir_version: 8, opset_import: ["" : 17]> g (float[3] lr) => (float[3] y) { y = Relu(lr) }`,
			"g")
		require.NoError(t, err)
		j, err := autograd.Differentiate(m,
			autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"lr"}})
		require.NoError(t, err)
		require.ErrorContains(t, autograd.AppendOptimizer(j, c.o), c.want)
	}
}

// TestUpdatesWaitForViews: a parameter is updated behind the last node that reads it before, through a view, too: new
// values are written in its place, where the view lies.
func TestUpdatesWaitForViews(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 6] x, float[6, 4] w1, float[4] w2) => (float loss) <int64[2] row = {1, 4}> {
	a = MatMul(x, w1)  v = Reshape(w2, row)  h = Mul(v, a)  t = Tanh(h)  loss = ReduceMean<keepdims = 0>(t)
}`
	m, err := graph.Parse(text, "net")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{})
	require.NoError(t, err)
	g := j.Model.Graph
	w, view := g.Value("w2"), g.Value("v")
	// Readers of the view, and the nodes behind them, follow the gradient of the parameter, as in graphs of others.
	late := map[graph.ValueID]bool{}
	var nodes, behind []*graph.Node
	for i, n := range g.Nodes {
		reads := func(v graph.ValueID) bool { return late[v] || v == view }
		if graph.NodeID(i) >= j.Backward && slices.ContainsFunc(n.Inputs, reads) {
			late[n.Output(0)] = true
			behind = append(behind, n)
		} else {
			nodes = append(nodes, n)
		}
	}
	g.SetNodes(append(nodes, behind...))
	require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "sgd", LR: 0.1}))
	updated, _ := g.Lookup("w2_new")
	first, last := graph.NodeID(len(g.Nodes)), graph.NodeID(-1)
	for i, n := range g.Nodes {
		for _, v := range n.Inputs {
			switch {
			case v == view:
				last = graph.NodeID(i)
			case v == w && n.Output(0) != view:
				first = min(first, graph.NodeID(i))
			}
		}
	}
	require.Less(t, first, graph.NodeID(len(g.Nodes)), "the update reads the parameter")
	require.LessOrEqual(t, first, g.Values[updated].Def)
	require.Greater(t, first, last, "a node reads the view of the parameter behind its update")
	require.GreaterOrEqual(t, last, j.Backward, "the backward half reads the view")
}
