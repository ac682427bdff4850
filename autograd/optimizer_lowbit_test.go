package autograd_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/lowbit"
)

// hexed are bytes as hexadecimal digits, and the float32 that internal/lowbit/testdata/vectors.py writes so.
type hexed []byte

func (h *hexed) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

func (h hexed) floats() []float32 {
	out := make([]float32, len(h)/4)
	for i := range out {
		out[i] = math.Float32frombits(uint32(new(big.Int).SetBytes(h[4*i : 4*i+4]).Uint64()))
	}
	return out
}

// lowBitText has a parameter w of n elements, whose states are codes, and one of three.
const lowBitText = `<ir_version: 8, opset_import: ["" : 17]> g (T[n] x, T[3] z, T[n] w, T[3] b) => (T[n] y, T[3] q) {
	y = Mul(x, w)  q = Mul(z, b) }`

// lowBitStep makes the step of lowBitText whose gradients are x and z.
func lowBitStep(
	t *testing.T, dtype graph.DType, n int, o autograd.Optimizer, options autograd.Options,
) *autograd.Joint {
	text := lowBitText
	if o.Stochastic {
		text = strings.Replace(text, ": 17]", fmt.Sprintf(": %d]", op.StochasticSince), 1)
	}
	m, err := graph.Parse(strings.NewReplacer("T[n]", fmt.Sprintf("%v[%d]", dtype, n), "T[3]", dtype.String()+"[3]").
		Replace(text), "g")
	require.NoError(t, err)
	options.Losses = []autograd.Loss{{Name: "y", Seed: true}, {Name: "q", Seed: true}}
	options.Wrt = []string{"w", "b"}
	j, err := autograd.Differentiate(m, options)
	require.NoError(t, err)
	if !options.Accumulate {
		require.NoError(t, autograd.AppendOptimizer(j, o))
	}
	return j
}

// runStates runs a step and feeds back its states.
func runStates(t *testing.T, m *graph.Model, in map[string]*executor.Tensor) map[string]*executor.Tensor {
	for _, d := range m.Graph.Inputs {
		if name := m.Graph.ValueName(d.Value); in[name] == nil {
			shape := executor.EvalShape(d.Type, nil)
			n, _ := executor.Bytes(d.Type.DType, shape)
			in[name] = &executor.Tensor{DType: d.Type.DType, Shape: shape, Data: make([]byte, n)}
		}
	}
	out := map[string]*executor.Tensor{}
	for i, x := range newRunner(t, m, nil)(in) {
		name := m.Graph.ValueName(m.Graph.Outputs[i].Value)
		out[name] = x
		if input, ok := strings.CutSuffix(name, autograd.NewSuffix); ok {
			in[input] = x
		}
	}
	return out
}

// TestLowBitTorchao: three updates give the weights, codes and scales of torchao 0.18. Its means are rounded once where
// a processor multiplies and adds in one operation, so that single codes may be next to its own.
func TestLowBitTorchao(t *testing.T) {
	text, err := os.ReadFile("../internal/lowbit/testdata/torchao.json")
	require.NoError(t, err)
	var want struct {
		Updates struct {
			Start hexed
			Grads []hexed
			Rows  []struct {
				Bits            int
				AdamW           bool
				W, M, MS, V, VS hexed
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want.Updates.Rows, 3)
	for _, row := range want.Updates.Rows {
		kind := fmt.Sprintf("adam%dbit", row.Bits)
		if row.AdamW {
			kind = fmt.Sprintf("adamw%dbit", row.Bits)
		}
		o := autograd.Optimizer{Kind: kind, LR: 0.01, WeightDecay: 0.1}
		j := lowBitStep(t, graph.Float32, 4096, o, autograd.Options{})
		ones := make([]float32, 4096)
		for i := range ones {
			ones[i] = 1
		}
		f := func(x []float32) *executor.Tensor { return executor.NewTensor(graph.Float32, []int{len(x)}, x...) }
		in := map[string]*executor.Tensor{"w": f(want.Updates.Start.floats()), "y_grad_seed": f(ones)}
		for _, g := range want.Updates.Grads {
			in["x"] = f(g.floats())
			runStates(t, j.Model, in)
		}
		near := func(name string, want []float32, tol, least float64) {
			for i, x := range executor.Of[float32](in[name]) {
				require.InDelta(t, want[i], x, tol*(least+math.Abs(float64(want[i]))), "%s: %s[%d]", kind, name, i)
			}
		}
		near("w", row.W.floats(), 2e-6, 0.25)
		near("w_exp_avg_scale", row.MS.floats(), 1e-6, 1e-6)
		near("w_exp_avg_sq_scale", row.VS.floats(), 1e-6, 1e-6)
		for name, codes := range map[string]hexed{"w_exp_avg": row.M, "w_exp_avg_sq": row.V} {
			other := 0
			require.Len(t, in[name].Data, len(codes))
			for i, c := range in[name].Data {
				if c != codes[i] {
					other++
				}
			}
			require.LessOrEqual(t, other, 4, "%s: codes of %s", kind, name)
		}
		require.Equal(t, graph.Float32, in["b_exp_avg"].DType, "a small parameter has no codes")
	}
}

// TestLowBitSkips: a gradient that is not finite leaves all states as they were, be it found by a loss scale or by a
// guard, and by the norm that a guard also bounds.
func TestLowBitSkips(t *testing.T) {
	for _, bits := range []int{8, 4} {
		for _, guard := range []bool{false, true} {
			for _, bound := range []float64{0, 1} {
				o := autograd.Optimizer{Kind: fmt.Sprintf("adamw%dbit", bits), LR: 0.1, WeightDecay: 0.1,
					MaxNorm: bound, Guard: guard}
				options := autograd.Options{}
				if !guard {
					options.LossScale = "scale"
				}
				j := lowBitStep(t, graph.Float32, 4352, o, options)
				w, x, ones := make([]float32, 4352), make([]float32, 4352), make([]float32, 4352)
				for i := range w {
					w[i], x[i], ones[i] = float32(i%7), float32(i%11)-3, 1
				}
				in := map[string]*executor.Tensor{"w": executor.NewTensor(graph.Float32, []int{4352}, w...),
					"x":           executor.NewTensor(graph.Float32, []int{4352}, x...),
					"y_grad_seed": executor.NewTensor(graph.Float32, []int{4352}, ones...)}
				if !guard {
					in["scale"] = executor.NewTensor(graph.Float32, []int{}, float32(4))
				}
				out := runStates(t, j.Model, in)
				require.EqualValues(t, 1, out[autograd.FiniteOutput].Data[0])
				before := map[string][]byte{}
				for _, name := range []string{"w", "b", "step", "w_exp_avg", "w_exp_avg_scale", "w_exp_avg_sq",
					"w_exp_avg_sq_scale", "b_exp_avg", "b_exp_avg_sq"} {
					before[name] = append([]byte(nil), in[name].Data...)
				}
				require.NotEqual(t, make([]byte, 4), before["w_exp_avg_scale"][:4])
				x[77] = float32(math.Inf(1))
				in["x"] = executor.NewTensor(graph.Float32, []int{4352}, x...)
				out = runStates(t, j.Model, in)
				require.EqualValues(t, 0, out[autograd.FiniteOutput].Data[0])
				for name, data := range before {
					require.Equal(t, data, in[name].Data, "%d bits, guard %v: %s", bits, guard, name)
				}
			}
		}
	}
}

// TestLowBitSums: an update of sums of gradients has the states of the step that updates by their mean, bit for bit,
// and leaves zeros.
func TestLowBitSums(t *testing.T) {
	for _, kind := range []string{"adam8bit", "adamw8bit", "adam4bit", "adamw4bit"} {
		o := autograd.Optimizer{Kind: kind, LR: 0.1, WeightDecay: 0.1, MaxNorm: 1}
		whole := lowBitStep(t, graph.Float32, 4352, o, autograd.Options{})
		part := lowBitStep(t, graph.Float32, 4352, o, autograd.Options{Accumulate: true})
		update, err := autograd.UpdateStep(part, o)
		require.NoError(t, err)
		w, x, ones := make([]float32, 4352), make([]float32, 4352), make([]float32, 4352)
		for i := range w {
			w[i], x[i], ones[i] = float32(i%7), float32(i%11)-3, 1
		}
		vector := func(x []float32) *executor.Tensor { return executor.NewTensor(graph.Float32, []int{len(x)}, x...) }
		one := map[string]*executor.Tensor{"w": vector(w), "x": vector(x), "y_grad_seed": vector(ones)}
		sums := map[string]*executor.Tensor{"w": vector(w), "w_grad_sum": vector(x),
			"grad_count": executor.NewTensor(graph.Int64, []int{}, int64(1))}
		for range 2 {
			runStates(t, whole.Model, one)
			sums["w_grad_sum"], sums["grad_count"] = vector(x), executor.NewTensor(graph.Int64, []int{}, int64(1))
			runStates(t, update.Model, sums)
			for _, name := range []string{"w", "w_exp_avg", "w_exp_avg_scale", "w_exp_avg_sq", "w_exp_avg_sq_scale"} {
				require.Equal(t, one[name].Data, sums[name].Data, "%s: %s", kind, name)
			}
			require.Equal(t, make([]byte, 4*4352), sums["w_grad_sum"].Data)
		}
	}
}

// TestLowBitStates: codes and scales take the bytes that the format says, and a double is not stored in codes.
func TestLowBitStates(t *testing.T) {
	for _, c := range []struct {
		dtype graph.DType
		n     int
		bits  int
		codes bool
	}{{graph.Float32, 4096, 8, true}, {graph.BFloat16, 4352, 8, true}, {graph.Float16, 4224, 4, true},
		{graph.Float32, 4224, 8, false}, {graph.Float32, 4095, 4, false}, {graph.Float64, 4096, 8, false}} {
		j := lowBitStep(t, c.dtype, c.n, autograd.Optimizer{Kind: fmt.Sprintf("adamw%dbit", c.bits), LR: 0.1},
			autograd.Options{})
		bytes := int64(0)
		for _, name := range []string{"w_exp_avg", "w_exp_avg_scale", "w_exp_avg_sq", "w_exp_avg_sq_scale"} {
			if v, ok := j.Model.Graph.Lookup(name); ok {
				n, known := j.Model.Graph.Values[v].Type.Bytes().Const()
				require.True(t, known)
				bytes += n
			}
		}
		want := 2 * lowbit.FormatOf(c.bits, true).Bytes(int64(c.n))
		if !c.codes {
			want = 2 * 4 * int64(c.n)
			if c.dtype == graph.Float64 {
				want *= 2
			}
		}
		require.Equal(t, want, bytes, "%+v", c)
	}
	o := autograd.Optimizer{Kind: "adamw8bit", LR: 0.1, Ranks: autograd.Ranks{Count: 2, Zero: 1}}
	j := lowBitStep(t, graph.Float32, 4096, o, autograd.Options{Accumulate: true})
	_, err := autograd.UpdateStep(j, o)
	require.ErrorContains(t, err, "ZeRO stage 1 would divide them: wanted stage 0")
}
