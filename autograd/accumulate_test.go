package autograd_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/internal/test/graphtest"
	_ "memopt/internal/test/rapidflags"
	"memopt/symbolic"
)

// The wanted numbers come from PyTorch 1.13, as those of TestOptimizers, with this in the loop:
//
//	opt.zero_grad()
//	for m in range(k + 1):
//	    x = torch.tensor([1.0, 2.0, -1.5], dtype=dtype) * (k + 1 - 1.5 * m)
//	    (((x * w + b) ** 2).sum() / (k + 1)).backward()
var accumulationCases = []struct {
	name string
	o    autograd.Optimizer
	w, b []float64
}{
	{"sgd", autograd.Optimizer{Kind: "sgd", LR: 0.01},
		[]float64{0.4279593, -0.5640888000000001, 1.41469334609375},
		[]float64{0.05860740000000001, 0.3190488, -0.07790196562499999}},
	{"nesterov", autograd.Optimizer{Kind: "sgd", LR: 0.01, Momentum: 0.9, Nesterov: true, WeightDecay: 0.1},
		[]float64{0.332189662383, -0.1148192286209999, 0.7171258208515311},
		[]float64{-0.004033885059899994, 0.4723289368902, 0.239198063532825}},
	{"clipped", autograd.Optimizer{Kind: "sgd", LR: 0.1, Momentum: 0.5, MaxNorm: 1.5},
		[]float64{0.44363645798212653, -0.6546932324188077, 1.53713798388865},
		[]float64{0.059962916035815605, 0.3183204639501178, -0.08218044173313387}},
	{"adam, decay",
		autograd.Optimizer{Kind: "adam", LR: 0.1, Beta1: 0.8, Beta2: 0.95, Eps: 1e-3, WeightDecay: 0.2},
		[]float64{0.19923524158711575, -0.7039319981718888, 1.7041400070582327},
		[]float64{-0.19273364663054568, 0.5006267515101206, 0.0011372727184641163}},
	{"adamw, clipped",
		autograd.Optimizer{Kind: "adamw", LR: 0.05, Beta1: 0.8, Beta2: 0.95, WeightDecay: 0.01, MaxNorm: 2},
		[]float64{0.3500850941783884, -0.8480717528809821, 1.846677023600417},
		[]float64{-0.040116336582338485, 0.34304013325303034, -0.1560751487004234}},
}

// accumulation runs micro-steps and updates that share their states by name.
type accumulation struct {
	micro, apply *graph.Model
	state        map[string]*executor.Tensor // inputs of either, by name
	out          map[string]*executor.Tensor // of the last step
	run          map[*graph.Model]func(map[string]*executor.Tensor) []*executor.Tensor
}

func newAccumulation(t *testing.T, m *graph.Model, opts autograd.Options, o autograd.Optimizer,
	dims symbolic.Env) *accumulation {
	t.Helper()
	opts.Accumulate = true
	j, err := autograd.Differentiate(m, opts)
	require.NoError(t, err)
	u, err := autograd.UpdateStep(j, o)
	require.NoError(t, err)
	a := &accumulation{micro: j.Model, apply: u.Model, state: map[string]*executor.Tensor{},
		run: map[*graph.Model]func(map[string]*executor.Tensor) []*executor.Tensor{}}
	for _, of := range []*graph.Model{a.micro, a.apply} {
		a.run[of] = newRunner(t, of, dims)
		pairs, err := live.Pairs(of)
		require.NoError(t, err)
		for _, p := range pairs {
			id, _ := of.Graph.Lookup(p.Input)
			d := of.Graph.Values[id].Type
			shape := executor.EvalShape(d, dims)
			n, _ := executor.Bytes(d.DType, shape)
			a.state[p.Input] = &executor.Tensor{DType: d.DType, Shape: shape, Data: make([]byte, n)}
		}
	}
	return a
}

// step runs one of the two graphs and hands on its states.
func (a *accumulation) step(t *testing.T, of *graph.Model) {
	t.Helper()
	a.out = map[string]*executor.Tensor{}
	for i, x := range a.run[of](a.state) {
		a.out[of.Graph.ValueName(of.Graph.Outputs[i].Value)] = x
	}
	pairs, err := live.Pairs(of)
	require.NoError(t, err)
	for _, p := range pairs {
		a.state[p.Input] = a.out[p.Output]
	}
}

// zeroed requires the sums and their count to be zeros.
func (a *accumulation) zeroed(t *testing.T, params ...string) {
	t.Helper()
	for _, p := range append(params, "") {
		x := a.state[autograd.CountInput]
		if p != "" {
			x = a.state[p+autograd.SumSuffix]
		}
		require.Equal(t, make([]byte, len(x.Data)), x.Data, p)
	}
}

// TestAccumulation: updates by one, two and three micro-batches, as PyTorch makes them.
func TestAccumulation(t *testing.T) {
	for _, c := range accumulationCases {
		for _, v := range []struct {
			dtype graph.DType
			scale string
			tol   float64
			guard bool
		}{{graph.Float64, "", 1e-12, false}, {graph.Float32, "", 2e-6, false},
			{graph.Float16, "loss_scale", 1e-2, false}, {graph.Float64, "loss_scale", 1e-12, false},
			{graph.Float64, "", 1e-12, true}, {graph.Float16, "loss_scale", 1e-2, true}} {
			t.Run(fmt.Sprint(c.name, v.dtype, v.scale, v.guard), func(t *testing.T) {
				c.o.Guard = v.guard
				opts := autograd.Options{Wrt: []string{"w", "b"}, LossScale: v.scale,
					Losses: []autograd.Loss{{Name: "y", Seed: true}}}
				a := newAccumulation(t, squares(t, v.dtype), opts, c.o, nil)
				tr := &training{t: t, in: a.state}
				for _, name := range []string{"x", "y_grad_seed"} {
					data := make([]byte, 3*v.dtype.Bits()/8)
					a.state[name] = &executor.Tensor{DType: v.dtype, Shape: []int{3}, Data: data}
				}
				tr.set("w", 0.5, -1, 2)
				tr.set("b", 0.1, 0.2, -0.3)
				tr.set("y_grad_seed", 1, 1, 1)
				if v.scale != "" {
					a.state[v.scale] = &executor.Tensor{DType: graph.Float32, Shape: []int{}, Data: make([]byte, 4)}
					tr.set(v.scale, 256)
				}
				for k := range 3 {
					for m := range k + 1 {
						f := float64(k+1) - 1.5*float64(m)
						tr.set("x", f, 2*f, -1.5*f)
						a.step(t, a.micro)
					}
					require.Equal(t, []int64{int64(k + 1)}, executor.Of[int64](a.state["grad_count"]))
					a.step(t, a.apply)
					a.zeroed(t, "w", "b")
				}
				tr.want(c.w, c.b, v.tol)
			})
		}
	}
}

// TestAccumulationOverflow: where a sum is not finite nothing is updated, and the sums start anew.
func TestAccumulationOverflow(t *testing.T) {
	a := newAccumulation(t, squares(t, graph.Float16), autograd.Options{Wrt: []string{"w", "b"},
		Losses: []autograd.Loss{{Name: "y", Seed: true}}, LossScale: "scale"},
		autograd.Optimizer{Kind: "adam", LR: 0.1, MaxNorm: 1}, nil)
	tr := &training{t: t, in: a.state}
	for _, name := range []string{"x", "y_grad_seed"} {
		a.state[name] = &executor.Tensor{DType: graph.Float16, Shape: []int{3}, Data: make([]byte, 6)}
		tr.set(name, 1, 2, 3)
	}
	a.state["scale"] = &executor.Tensor{DType: graph.Float32, Shape: []int{}, Data: make([]byte, 4)}
	tr.set("w", 1, 1, 1)
	for _, scale := range []float64{2, 65504} { // the second gradient is too large for float16
		tr.set("scale", scale)
		require.Equal(t, graph.Float32, a.state["w_grad_sum"].DType)
		a.step(t, a.micro)
	}
	require.True(t, math.IsInf(tr.get("w_grad_sum")[2], 1))
	a.step(t, a.apply)
	require.Equal(t, byte(0), a.out["grads_finite"].Data[0])
	require.Equal(t, []float64{1, 1, 1}, tr.get("w"))
	require.Equal(t, []float64{0, 0, 0}, tr.get("w_exp_avg"))
	require.Equal(t, []int64{0}, executor.Of[int64](a.state["step"]))
	a.zeroed(t, "w", "b")
	a.step(t, a.apply) // an update of no gradients divides by one
	require.Equal(t, byte(1), a.out["grads_finite"].Data[0])
	require.Equal(t, []float64{1, 1, 1}, tr.get("w"))
}

// TestAccumulationGuard: without a loss scale, a guard does the same for sums that are not finite.
func TestAccumulationGuard(t *testing.T) {
	for _, c := range accumulationCases {
		c.o.Guard = true
		a := newAccumulation(t, squares(t, graph.Float32), autograd.Options{Wrt: []string{"w", "b"},
			Losses: []autograd.Loss{{Name: "y", Seed: true}}}, c.o, nil)
		tr := &training{t: t, in: a.state}
		for _, name := range []string{"x", "y_grad_seed"} {
			a.state[name] = &executor.Tensor{DType: graph.Float32, Shape: []int{3}, Data: make([]byte, 12)}
			tr.set(name, 1, 2, 3)
		}
		tr.set("w", 1, 1, 1)
		a.step(t, a.micro)
		a.step(t, a.apply)
		require.Equal(t, byte(1), a.out["grads_finite"].Data[0])
		before := map[string][]byte{}
		for name, x := range a.state {
			before[name] = slices.Clone(x.Data)
		}
		a.step(t, a.micro)
		tr.set("y_grad_seed", 1, math.NaN(), 1)
		a.step(t, a.micro)
		tr.set("y_grad_seed", 1, 2, 3)
		a.step(t, a.apply)
		require.Equal(t, byte(0), a.out["grads_finite"].Data[0])
		for name, x := range a.state {
			require.Equal(t, before[name], x.Data, "%s: %s", c.name, name)
		}
	}
}

// embedded is a model whose table is looked up twice and multiplied by, and so has three gradients;
// the loss is a mean.
const embedded = `<ir_version: 8, opset_import: ["" : 17]>
	g (int64[B, 4] ids, int64[B, 4] other, double[7, 16] table, double[16] scale, double[B, 4] target) => (double loss) <
			int64[2] to = {1, 0}, double two = {2}> {
		e = Gather(table, ids)  o = Gather(table, other)  s = Add(e, o)  h = Mul(s, scale)  a = Tanh(h)
		t = Transpose(table)  scores = MatMul(a, t)  best = ReduceMean<axes = [-1], keepdims = 0>(scores)
		d = Sub(best, target)  q = Pow(d, two)  loss = ReduceMean<keepdims = 0>(q) }`

// TestAccumulationOfParts: a step in equal micro-batches is a step of all samples, within rounding,
// and of one micro-batch it has the bits of the plain step.
func TestAccumulationOfParts(t *testing.T) {
	m, err := graph.Parse(embedded, "embedded")
	require.NoError(t, err)
	inferred(t, m)
	rapid.Check(t, func(rt *rapid.T) {
		n, each := rapid.IntRange(1, 4).Draw(rt, "micro-batches"), rapid.IntRange(1, 3).Draw(rt, "samples")
		o := autograd.Optimizer{Kind: rapid.SampledFrom(autograd.OptimizerKinds).Draw(rt, "kind"), LR: 0.1,
			WeightDecay: rapid.SampledFrom([]float64{0, 0.1}).Draw(rt, "decay"),
			MaxNorm:     rapid.SampledFrom([]float64{0, 1e-3, 10}).Draw(rt, "norm")}
		opts := autograd.Options{LossScale: rapid.SampledFrom([]string{"", "scale"}).Draw(rt, "scale"),
			Wrt: []string{"table", "scale"}}
		if opts.LossScale != "" {
			opts.LossScale = "loss_scale"
		}
		whole := symbolic.Env{"B": int64(n * each)}
		j, err := autograd.Differentiate(m, opts)
		require.NoError(t, err)
		require.NoError(t, autograd.AppendOptimizer(j, o))
		filler := dataset.NewFiller(j.Model.Graph, whole, uint64(rapid.IntRange(1, 100).Draw(rt, "seed")))
		filler.BeginAtZero(live.OptimizerStates(j.Model))
		a := newAccumulation(t, m, opts, o, symbolic.Env{"B": int64(each)})
		inputs := tensors{}
		for _, d := range j.Model.Graph.Inputs {
			name := j.Model.Graph.ValueName(d.Value)
			inputs[name], err = filler.Fill(d.Value)
			require.NoError(t, err)
			if name == "loss_scale" {
				executor.Of[float32](inputs[name])[0] = 64
			}
			a.state[name] = inputs[name]
		}
		want := newRunner(t, j.Model, whole)(inputs)
		for k := range n {
			for _, name := range []string{"ids", "other", "target"} {
				x := inputs[name]
				size := len(x.Data) / n
				a.state[name] = &executor.Tensor{DType: x.DType, Shape: []int{each, 4}, Data: x.Data[k*size:][:size]}
			}
			a.step(t, a.micro)
		}
		a.step(t, a.apply)
		a.zeroed(t, "table", "scale")
		for i, d := range j.Model.Graph.Outputs {
			name := j.Model.Graph.ValueName(d.Value)
			switch got := a.out[name]; {
			case name == "loss":
			case n == 1:
				require.Equal(rt, want[i].Data, got.Data, name)
			case got.DType.IsFloat():
				require.InDeltaSlice(rt, executor.Of[float64](want[i]), executor.Of[float64](got), 1e-12, name)
			}
		}
	})
}

// TestAccumulationInPlace: in the sample models all sums lie in the buffers of their inputs, so that
// the peak is no higher than that of the plain gradients. Where these are what memory goes to it is
// lower: there no two of them are there at a time.
func TestAccumulationInPlace(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		m, file, err := onnx.Open(s.File)
		require.NoError(t, err)
		defer file.Close()
		opts := autograd.Options{Losses: []autograd.Loss{{Name: "loss"}}}
		inferred(t, m)
		if _, ok := m.Graph.Lookup("loss"); !ok {
			opts.Losses = []autograd.Loss{{Name: "logits", Seed: true}}
		}
		requireInPlace(t, m, opts, 0)
	}
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[batch, 64] x, float[64, 64] a,
		float[64, 64] b, float[64, 64] c) => (float loss) { p = MatMul(x, a)  q = MatMul(p, b)  r = MatMul(q, c)
		loss = ReduceMean<keepdims = 0>(r) }`, "layers")
	require.NoError(t, err)
	inferred(t, m)
	requireInPlace(t, m, autograd.Options{}, 30_000) // of 49,152 that the three gradients take
}

// requireInPlace requires the micro-step to take that many bytes less than the plain gradients, next
// to the sums.
func requireInPlace(t *testing.T, m *graph.Model, opts autograd.Options, less int64) {
	t.Helper()
	env := symbolic.Env{"batch": 4, "seq": 12}
	j, err := autograd.Differentiate(m, opts)
	require.NoError(t, err, m.Path)
	plain := simulated(t, j.Model, env)
	opts.Accumulate = true
	j, err = autograd.Differentiate(m, opts)
	require.NoError(t, err)
	micro := simulated(t, j.Model, env)
	require.Empty(t, micro.Copied, m.Path)
	require.LessOrEqual(t, micro.Peak.Bytes+less, plain.Peak.Bytes, m.Path)
	for _, kind := range autograd.OptimizerKinds {
		for _, guard := range []bool{false, true} {
			u, err := autograd.UpdateStep(j, autograd.Optimizer{Kind: kind, LR: 0.1, MaxNorm: 1, Guard: guard})
			require.NoError(t, err)
			update := simulated(t, u.Model, nil)
			require.Empty(t, update.Copied, m.Path)
			most := 2*largest(u.Model.Graph) + 1024
			if kind == "muon" || kind == "adafactor" {
				// muon: the square of the matrix that is made orthogonal, with the shorter side; adafactor: the mean of
				// each matrix, which in kernels of 1 by 1 are as many as the elements.
				most += largest(u.Model.Graph)
			}
			require.Less(t, update.Peak.Bytes, most, "%s: %s", m.Path, kind)
		}
	}
}

// largest is how many bytes the largest input takes.
func largest(g *graph.Graph) (bytes int64) {
	for _, d := range g.Inputs {
		n, _ := d.Type.Bytes().Const()
		bytes = max(bytes, n)
	}
	return bytes
}

// TestAccumulatedHalves: gradients of float16 that are scattered or come in parts are added to sums in
// float, beside others.
func TestAccumulatedHalves(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float16[5, 16] table, int64[3] ids, int64[2, 1] pairs, int64[5, 2] at) => (float16 loss) <int64[1] from = {1},
				int64[1] to = {3}, int64[1] axis = {0}> {
			a = Gather(table, ids)  b = GatherND(table, pairs)  c = GatherElements<axis = 1>(table, at)
			d = Slice(table, from, to, axis)  s = ReduceSum<keepdims = 0>(a)  u = ReduceSum<keepdims = 0>(b)
			v = ReduceSum<keepdims = 0>(c)  w = ReduceSum<keepdims = 0>(d)  loss = Sum(s, u, v, w) }`, "halves")
	require.NoError(t, err)
	inferred(t, m)
	a := newAccumulation(t, m, autograd.Options{Wrt: []string{"table"}}, autograd.Optimizer{Kind: "sgd", LR: 1}, nil)
	a.state["table"] = &executor.Tensor{DType: graph.Float16, Shape: []int{5, 16}, Data: make([]byte, 160)}
	a.state["ids"], a.state["pairs"] = ints([]int{3}, 4, 0, 4), ints([]int{2, 1}, 2, 2)
	a.state["at"] = ints([]int{5, 2}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
	a.step(t, a.micro)
	a.step(t, a.micro)
	want := make([]float32, 80)
	for i := range want { // each of two steps: ids, pairs, slice
		want[i] = []float32{2, 2, 2 + 4, 0, 4}[i/16]
	}
	for i := range 5 { // elements
		want[16*i] += []float32{4, 4, 4, 4, 2}[i]
	}
	want[65] += 2
	require.Equal(t, want, executor.Of[float32](a.state["table_grad_sum"]))
}

// TestAccumulatedParts: a part at known places is scattered onto the sum; one at others, which a
// scatter may not find, is added with zeros around it, so that sums can be written before.
func TestAccumulatedParts(t *testing.T) {
	for dim, scatters := range map[string]bool{"2": true, "S": false} {
		m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]> g (float[5, 16] w, float[%[1]s] x) =>
			(float loss) <float[%[1]s, 16] d, int64[1] from = {0}> { end = Shape(x)  d = Slice(w, from, end)  a = Tanh(d)  b = Tanh(w)
			s = ReduceSum<keepdims = 0>(a)  u = ReduceSum<keepdims = 0>(b)  loss = Add(s, u) }`, dim), "parts")
		require.NoError(t, err)
		inferred(t, m)
		j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w"}, Accumulate: true})
		require.NoError(t, err)
		scattered := slices.ContainsFunc(j.Model.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "ScatterND" })
		require.Equal(t, scatters, scattered, dim)
	}
}

// TestAccumulationGraph: parameters become inputs, and those that no loss depends on keep their sums.
func TestAccumulationGraph(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, float[2] idle) => (float[3] y)
		<float[3] w = {1, 2, 3}> { y = Mul(x, w)  z = Neg(idle) }`, "g")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w", "idle"}, Accumulate: true,
		Losses: []autograd.Loss{{Name: "y", Seed: true}}})
	require.NoError(t, err)
	require.Equal(t, []string{"idle"}, j.Unreached)
	var ins, outs []string
	for _, d := range j.Model.Graph.Inputs {
		ins = append(ins, j.Model.Graph.ValueName(d.Value))
	}
	for _, d := range j.Model.Graph.Outputs {
		outs = append(outs, j.Model.Graph.ValueName(d.Value))
	}
	require.Equal(t, []string{"x", "idle", "y_grad_seed", "w_grad_sum", "idle_grad_sum", "w", "grad_count"}, ins)
	require.Equal(t, []string{"y", "w_grad_sum_new", "idle_grad_sum_new", "grad_count_new"}, outs)
	f := func(v ...float32) *executor.Tensor {
		return executor.NewTensor[float32](graph.Float32, []int{len(v)}, v...)
	}
	got := newRunner(t, j.Model, nil)(tensors{"x": f(1, 2, 3), "idle": f(7, 8), "y_grad_seed": f(1, 1, 2),
		"w": f(0, 0, 0), "w_grad_sum": f(10, 20, 30), "idle_grad_sum": f(5, 6), "grad_count": ints([]int{}, 4)})
	require.Equal(t, []float32{11, 22, 36}, executor.Of[float32](got[1]))
	require.Equal(t, []float32{5, 6}, executor.Of[float32](got[2]))
	require.Equal(t, []int64{5}, executor.Of[int64](got[3]))
}

// TestAccumulationErrors: what cannot be.
func TestAccumulationErrors(t *testing.T) {
	m := squares(t, graph.Float32)
	opts := autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"w", "b"}}
	plain, err := autograd.Differentiate(m, opts)
	require.NoError(t, err)
	_, err = autograd.UpdateStep(plain, autograd.Optimizer{Kind: "sgd"})
	require.ErrorContains(t, err, "has gradients and no sums of them")
	opts.Accumulate = true
	sums, err := autograd.Differentiate(m, opts)
	require.NoError(t, err)
	require.ErrorContains(t, autograd.AppendOptimizer(sums, autograd.Optimizer{Kind: "sgd"}), "UpdateStep makes")
	_, err = autograd.UpdateStep(sums, autograd.Optimizer{Kind: "lamb"})
	require.ErrorContains(t, err, "wanted "+autograd.Kinds())
	_, err = autograd.UpdateStep(sums, autograd.Optimizer{Kind: "sgd", KeepGrads: true})
	require.ErrorContains(t, err, "gradients cannot be kept")
	for _, name := range []string{"w_grad_sum", "w_grad_sum_new", "grad_count", "grad_count_new"} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[3] `+name+
			`, float[3] w) => (float[3] y) { y = Mul(`+name+`, w) }`, "g")
		require.NoError(t, err)
		_, err = autograd.Differentiate(m, autograd.Options{Losses: opts.Losses, Wrt: []string{"w"}, Accumulate: true})
		require.ErrorContains(t, err, fmt.Sprintf("has a value %q already", name))
	}
}
