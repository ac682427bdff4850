package autograd_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
)

func number(x float64) *float64 { return &x }

// groupCases are PyTorch's parameter groups, run as optimizerCases say, with
//
//	torch.optim.AdamW([{"params": [w], "lr": 0.05, "weight_decay": 0.2}, {"params": [b]}], lr=0.1, weight_decay=0)
//	torch.optim.AdamW([{"params": [w], "weight_decay": 0.2}, {"params": [b]}], lr=0.1, weight_decay=0.7)
//	torch.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.001, "weight_decay": 0.3}], lr=0.01, momentum=0.9,
//	                weight_decay=0.1), clipped to 2
//	torch.optim.Adam([{"params": [w], "weight_decay": 0.5}, {"params": [b], "lr": 0.3, "weight_decay": 0}], lr=0.1)
var groupCases = []struct {
	name string
	o    autograd.Optimizer
	w, b []float64
}{
	{"adamw", autograd.Optimizer{Kind: "adamw", LR: 0.1,
		Groups: []autograd.Group{{Match: []string{"w*"}, LRScale: 0.5, WeightDecay: number(0.2)}}},
		[]float64{0.3452285979655216, -0.8335803106895215, 1.8034069865917917},
		[]float64{-0.19847094022021217, 0.4935357926298816, -0.0054800636242873235}},
	{"adamw, two decays", autograd.Optimizer{Kind: "adamw", LR: 0.1, WeightDecay: 0.7,
		Groups: []autograd.Group{{Match: []string{"w"}, WeightDecay: number(0.2)}}},
		[]float64{0.18859185000627376, -0.6685623059672584, 1.6097159351690074},
		[]float64{-0.19908412192319178, 0.43581074640177114, 0.0338141249626667}},
	{"sgd, clipped", autograd.Optimizer{Kind: "sgd", LR: 0.01, Momentum: 0.9, WeightDecay: 0.1, MaxNorm: 2,
		Groups: []autograd.Group{{Match: []string{"w"}},
			{Match: []string{"*"}, LRScale: 0.1, WeightDecay: number(0.3)}}},
		[]float64{0.48766030313746694, -0.9324537330181574, 1.9084291353096052},
		[]float64{0.09915904513289378, 0.20178379405137278, -0.2957466796947135}},
	{"adam, no decay but for a group", autograd.Optimizer{Kind: "adam", LR: 0.1, WeightDecay: 0.2,
		NoDecay: func(string) bool { return true },
		Groups: []autograd.Group{{Match: []string{"w"}, WeightDecay: number(0.5)},
			{Match: []string{"b"}, LRScale: 3}}},
		[]float64{0.2035182883080257, -0.7198312027612263, 1.7201363659586633},
		[]float64{-0.7920044730153113, 1.0880266604542064, 0.5867350360582517}},
}

// TestGroups: PyTorch's numbers, with the rate in the graph and from outside, guarded or not.
func TestGroups(t *testing.T) {
	for _, c := range groupCases {
		t.Run(c.name, func(t *testing.T) {
			for _, guard := range []bool{false, true} {
				o := c.o
				o.Guard = guard
				tr := newTraining(t, graph.Float64, o, "")
				for k := range 3 {
					tr.update(k)
				}
				tr.want(c.w, c.b, 1e-12)
				o.LR = 0
				tr = newTraining(t, graph.Float32, o, "")
				tr.set("lr", c.o.LR)
				for k := range 3 {
					tr.update(k)
				}
				tr.want(c.w, c.b, 2e-6)
			}
		})
	}
}

// TestGuardKeepsNumbers: where all is finite, a guard changes no bit, of any optimizer.
func TestGuardKeepsNumbers(t *testing.T) {
	for _, c := range optimizerCases {
		for _, dtype := range []graph.DType{graph.Float32, graph.Float16} {
			o, guarded := c.o, c.o
			guarded.Guard = true
			plain, tr := newTraining(t, dtype, o, ""), newTraining(t, dtype, guarded, "")
			for k := range 3 {
				plain.update(k)
				tr.update(k)
				require.Equal(t, byte(1), tr.out[autograd.FiniteOutput].Data[0])
			}
			for name, x := range plain.in {
				require.Equal(t, x.Data, tr.in[name].Data, "%s: %s", c.name, name)
			}
		}
	}
}

// TestGuard: a loss, a gradient, or a sum of squares that is not finite leaves everything as it was,
// to the bit, in each optimizer, and the next good step goes on from there.
func TestGuard(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range append(optimizerCases, groupCases...) {
		for _, bad := range [][]float64{{math.NaN(), 1, 1}, {1, inf, 1}, {1, 1, -inf}, {1e30, 1, 1}} {
			o := c.o
			o.Guard = true
			tr, undisturbed := newTraining(t, graph.Float32, o, ""), newTraining(t, graph.Float32, o, "")
			tr.update(0)
			undisturbed.update(0)
			require.Equal(t, byte(1), tr.out[autograd.FiniteOutput].Data[0])
			before := map[string][]byte{}
			for name, x := range tr.in {
				before[name] = append([]byte{}, x.Data...)
			}
			tr.set("y_grad_seed", bad...)
			tr.update(1)
			require.Equal(t, byte(0), tr.out[autograd.FiniteOutput].Data[0], "%s %v", c.name, bad)
			for name, x := range tr.in {
				if name != "x" && name != "y_grad_seed" {
					require.Equal(t, before[name], x.Data, "%s %v: %s", c.name, bad, name)
				}
			}
			tr.set("y_grad_seed", 1, 1, 1)
			tr.update(2)
			undisturbed.update(2)
			require.Equal(t, undisturbed.get("w"), tr.get("w"), c.name)
		}
	}
}

// TestGuardAsksTheLoss: a loss may be no number although all gradients are.
func TestGuardAsksTheLoss(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float[3] x, float[3] w, float c) => (float loss) {
		p = Mul(x, w)  s = ReduceSum<keepdims = 0>(p)  loss = Add(s, c) }`, "g")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w"}})
	require.NoError(t, err)
	require.Equal(t, "loss", j.Loss)
	require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "sgd", LR: 1, Guard: true}))
	f := func(v ...float32) *executor.Tensor {
		return &executor.Tensor{DType: graph.Float32, Shape: []int{len(v)}, Data: executor.Memory(v)}
	}
	scalar := func(v float32) *executor.Tensor {
		return &executor.Tensor{DType: graph.Float32, Shape: []int{}, Data: executor.Memory([]float32{v})}
	}
	scaled, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w"}, LossScale: "scale"})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(scaled, autograd.Optimizer{Kind: "sgd", LR: 1, Guard: true}))
	for c, want := range map[float32][]float32{1: {-1, 0, 1}, float32(math.Inf(-1)): {1, 1, 1}} {
		in := map[string]*executor.Tensor{"x": f(2, 1, 0), "w": f(1, 1, 1), "c": scalar(c), "scale": scalar(4)}
		require.Equal(t, want, executor.Of[float32](stepOf(t, scaled.Model, nil, in)["w_new"]))
		s, err := executor.Open(context.Background(), j.Model, j.Types, cpu.Device{}, executor.Options{Threads: 1})
		require.NoError(t, err)
		for name, x := range map[string]*executor.Tensor{"x": f(2, 1, 0), "w": f(1, 1, 1), "c": scalar(c)} {
			require.NoError(t, s.SetInput(name, x))
		}
		require.NoError(t, s.Run(context.Background()))
		for i, d := range j.Model.Graph.Outputs {
			if j.Model.Graph.ValueName(d.Value) == "w_new" {
				require.Equal(t, want, executor.Of[float32](s.Output(i)))
			}
		}
		require.NoError(t, s.Close())
	}
}

func TestGroupErrors(t *testing.T) {
	for _, c := range []struct {
		g    autograd.Group
		want string
	}{
		{autograd.Group{}, "group 1 matches no parameter"},
		{autograd.Group{Match: []string{"w", "v*"}}, `group 1: "v*" matches no parameter; they are w, b`},
		{autograd.Group{Match: []string{"w"}, LRScale: -1}, "multiplies the learning rate by -1"},
		{autograd.Group{Match: []string{"w"}, LRScale: math.NaN()}, "multiplies the learning rate by NaN"},
		{autograd.Group{Match: []string{"w"}, WeightDecay: number(math.Inf(1))}, "has the weight decay +Inf"},
		{autograd.Group{Match: []string{"w"}, WeightDecay: number(-1)}, "has the weight decay -1"},
	} {
		j, err := autograd.Differentiate(squares(t, graph.Float32),
			autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{"w", "b"}})
		require.NoError(t, err)
		err = autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "sgd", LR: 1, Groups: []autograd.Group{c.g}})
		require.ErrorContains(t, err, c.want)
	}
}

func TestNoDecayOfVectors(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float[2, 3] w, float[3] b, float s, float x) => (float[2, 3] y) { a = Add(w, b)  y = Mul(a, s) }`, "g")
	require.NoError(t, err)
	none := autograd.NoDecayOfVectors(m)
	require.False(t, none("w"))
	require.True(t, none("b"))
	require.True(t, none("s"))
	require.False(t, none("nothing of the model"))
}

// TestLossOutput: the loss of a graph can be read, whatever it is made of.
func TestLossOutput(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, float[3] w) => (float[3] p) {
		p = Mul(x, w)  a = ReduceSum<keepdims = 0>(p)  q = Mul(p, p)  b = ReduceMean(q) }`
	f := func(v ...float32) *executor.Tensor {
		return &executor.Tensor{DType: graph.Float32, Shape: []int{len(v)}, Data: executor.Memory(v)}
	}
	for _, c := range []struct {
		losses []autograd.Loss
		name   string
		want   float32
	}{
		{[]autograd.Loss{{Name: "a"}}, "a", 6},
		{[]autograd.Loss{{Name: "b", Weight: 1}}, "b", 14. / 3},
		{[]autograd.Loss{{Name: "a", Weight: 2}}, autograd.TotalLoss, 12},
		{[]autograd.Loss{{Name: "a", Weight: -1}, {Name: "b", Weight: 3}}, autograd.TotalLoss, 8},
	} {
		m, err := graph.Parse(text, "g")
		require.NoError(t, err)
		o := autograd.Options{Losses: c.losses, Wrt: []string{"w"}}
		quiet, err := autograd.Differentiate(m, o)
		require.NoError(t, err)
		if c.name != autograd.TotalLoss {
			require.Equal(t, c.name, quiet.Loss)
		} else {
			require.Empty(t, quiet.Loss)
		}
		o.LossOutput, o.Outputs = true, []string{"p"}
		j, err := autograd.Differentiate(m, o)
		require.NoError(t, err)
		require.Equal(t, c.name, j.Loss)
		in := map[string]*executor.Tensor{"x": f(1, 2, 3), "w": f(1, 1, 1)}
		out := stepOf(t, j.Model, nil, in)
		require.Equal(t, c.want, executor.Of[float32](out[c.name])[0])
		require.Equal(t, stepOf(t, quiet.Model, nil, in)["w_grad"].Data, out["w_grad"].Data)
	}
	m, err := graph.Parse(text, "g")
	require.NoError(t, err)
	_, err = autograd.Differentiate(m, autograd.Options{LossOutput: true, Wrt: []string{"w"},
		Losses: []autograd.Loss{{Name: "p", Seed: true}}})
	require.ErrorContains(t, err, "no output can be the loss")
}

// TestGuardInPlace: a guard needs no more memory than the norm, and copies no state.
func TestGuardInPlace(t *testing.T) {
	for _, kind := range autograd.OptimizerKinds {
		peaks := map[bool]int64{}
		for _, guard := range []bool{false, true} {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[4, 64] x, float[64, 64] a,
				float[64, 64] b, float[64, 64] c) => (float loss) { p = MatMul(x, a)  q = MatMul(p, b)
				r = MatMul(q, c)  loss = ReduceMean<keepdims = 0>(r) }`, "layers")
			require.NoError(t, err)
			inferred(t, m)
			j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"a", "b", "c"}})
			require.NoError(t, err)
			o := autograd.Optimizer{Kind: kind, MaxNorm: 1, Guard: guard}
			require.NoError(t, autograd.AppendOptimizer(j, o))
			at := simulated(t, j.Model, nil)
			require.Empty(t, at.Copied, kind)
			peaks[guard] = at.Peak.Bytes
		}
		require.InDelta(t, peaks[false], peaks[true], 256, kind)
	}
}
