package autograd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/precision"
)

// torchCase is a case of testdata/torchoptim.py.
type torchCase struct {
	Kind, Products, Adjust string
	LR, Decay, Momentum    float64
	Shapes                 [][]int
	Start                  [][]float32
	Grads, Ends            [][][]float32
}

func torchCases(t *testing.T, kind string) (list []torchCase) {
	text, err := os.ReadFile("testdata/torchoptim.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &list))
	list = slices.DeleteFunc(list, func(c torchCase) bool { return c.Kind != kind })
	require.NotEmpty(t, list)
	return list
}

// ofShapes is a graph whose parameters w0, w1, … have the gradients of its outputs y0, y1, …; with products, the last
// parameter is the head.
func ofShapes(t *testing.T, shapes [][]int, products bool) *graph.Model {
	var in, out, nodes []string
	for k, s := range shapes {
		shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(s), "[]"), " ", ", ")
		of, read, op := "float["+shape+"]", "float["+shape+"]", "Mul"
		if len(s) == 0 {
			of, read = "float", "float"
		}
		if products {
			read, op = fmt.Sprintf("float[%d, %d]", s[0], s[0]), "MatMul"
		}
		in = append(in, fmt.Sprintf("%s x%d, %s w%d", read, k, of, k))
		out = append(out, fmt.Sprintf("%s y%d", of, k))
		nodes = append(nodes, fmt.Sprintf("y%d = %s(x%d, w%d)", k, op, k, k))
	}
	m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]> g (%s) => (%s) {
	%s }`, strings.Join(in, ", "), strings.Join(out, ", "), strings.Join(nodes, "\n")), "g")
	require.NoError(t, err)
	return m
}

// like makes a tensor of a shape.
func like(shape []int, x ...float32) *executor.Tensor {
	return executor.NewTensor(graph.Float32, shape, x...)
}

// identity makes a matrix of n rows and columns with ones on its diagonal.
func identity(n int) *executor.Tensor {
	x := make([]float32, n*n)
	for i := range n {
		x[i*n+i] = 1
	}
	return like([]int{n, n}, x...)
}

// TestMuonTorch: updates of matrices are those of torch.optim.Muon, to 1e-6 with products in float32, and with products
// in bfloat16 to its noise. The head behind them is updated as adamw does.
func TestMuonTorch(t *testing.T) {
	for _, c := range torchCases(t, "muon") {
		shapes := append(slices.Clone(c.Shapes), []int{2, 2})
		for _, micros := range []int{1, 2} {
			name := fmt.Sprintf("%s, %s, %d micro-batches", c.Products, c.Adjust, micros)
			o := autograd.Optimizer{Kind: "muon", LR: c.LR, WeightDecay: c.Decay, Momentum: c.Momentum,
				AdjustLR: c.Adjust}
			if c.Adjust == autograd.AdjustLRs[0] {
				o.AdjustLR = ""
			}
			options := autograd.Options{Accumulate: micros > 1}
			if c.Products == "bfloat16" {
				options.Precision = precision.BF16
			}
			step, update := stepsOf(t, ofShapes(t, shapes, true), len(shapes), options, o)
			in := map[string]*executor.Tensor{}
			for k, s := range shapes {
				in[fmt.Sprint("x", k)] = identity(s[0])
			}
			in["w3"] = like([]int{2, 2}, 1, 2, 3, 4)
			for k, w := range c.Start {
				in[fmt.Sprint("w", k)] = like(c.Shapes[k], w...)
			}
			for at, grads := range c.Grads {
				for k, g := range grads {
					in[fmt.Sprintf("y%d_grad_seed", k)] = like(c.Shapes[k], g...)
				}
				in["y3_grad_seed"] = like([]int{2, 2}, 1, 1, -1, 1)
				step(in)
				if update != nil {
					step(in)
					update(in)
				}
				tol := 1e-6
				if c.Products == "bfloat16" {
					tol = 1e-3 // of steps of 0.02·0.2·√5 or 0.02·√(5/3)
				}
				for k, want := range c.Ends[at] {
					got := executor.Of[float32](in[fmt.Sprint("w", k)])
					for i, x := range got {
						require.InDelta(t, want[i], x, tol, "%s: update %d, w%d[%d]", name, at+1, k, i)
					}
					require.Contains(t, in, fmt.Sprintf("w%d_momentum", k))
					require.NotContains(t, in, fmt.Sprintf("w%d_exp_avg", k))
				}
			}
			require.NotContains(t, in, "w3_momentum", "the head")
			// torch.optim.AdamW moves by the rate while gradients stay: 1·(1-0.002)³ - 0.02·(1 + 0.998 + 0.998²)
			keep := 1 - c.LR*c.Decay
			want := keep*keep*keep - c.LR*(1+keep+keep*keep)
			require.InDelta(t, want, executor.Of[float32](in["w3"])[0], 1e-6, name)
		}
	}
}

// stepsOf make the step of a graph with so many outputs and its update; the latter is nil without accumulation. Both
// feed back their states.
func stepsOf(t *testing.T, m *graph.Model, n int, options autograd.Options, o autograd.Optimizer) (step,
	update func(map[string]*executor.Tensor)) {
	for k := range n {
		options.Losses = append(options.Losses, autograd.Loss{Name: fmt.Sprint("y", k), Seed: true})
		options.Wrt = append(options.Wrt, fmt.Sprint("w", k))
	}
	j, err := autograd.Differentiate(m, options)
	require.NoError(t, err)
	run := func(m *graph.Model) func(map[string]*executor.Tensor) {
		return func(in map[string]*executor.Tensor) { runStates(t, m, in) }
	}
	if !options.Accumulate {
		require.NoError(t, autograd.AppendOptimizer(j, o))
		return run(j.Model), nil
	}
	u, err := autograd.UpdateStep(j, o)
	require.NoError(t, err)
	return run(j.Model), run(u.Model)
}

// TestAdafactorTorch: updates are those of torch.optim.Adafactor, of vectors, numbers and stacks of matrices, too, and
// the states have the bytes of rows and columns.
func TestAdafactorTorch(t *testing.T) {
	for _, c := range torchCases(t, "adafactor") {
		for _, micros := range []int{1, 2} {
			o := autograd.Optimizer{Kind: "adafactor", LR: c.LR, WeightDecay: c.Decay}
			step, update := stepsOf(t, ofShapes(t, c.Shapes, false), len(c.Shapes),
				autograd.Options{Accumulate: micros > 1}, o)
			in := map[string]*executor.Tensor{}
			for k, w := range c.Start {
				ones := slices.Repeat([]float32{1}, len(w))
				in[fmt.Sprint("w", k)] = like(c.Shapes[k], w...)
				in[fmt.Sprintf("y%d_grad_seed", k)] = like(c.Shapes[k], ones...)
			}
			for at, grads := range c.Grads {
				for k, g := range grads {
					in[fmt.Sprint("x", k)] = like(c.Shapes[k], g...)
				}
				step(in)
				if update != nil {
					step(in)
					update(in)
				}
				for k, want := range c.Ends[at] {
					for i, x := range executor.Of[float32](in[fmt.Sprint("w", k)]) {
						require.InDelta(t, want[i], x, 1e-6*max(1, math.Abs(float64(want[i]))),
							"rate %v, %d micro-batches, update %d, w%d[%d]", c.LR, micros, at+1, k, i)
					}
				}
			}
			for k, s := range c.Shapes {
				row, factored := in[fmt.Sprintf("w%d_row_var", k)]
				require.Equal(t, len(s) > 1, factored)
				if !factored {
					require.Equal(t, s, in[fmt.Sprintf("w%d_variance", k)].Shape)
					continue
				}
				n := len(s)
				require.Equal(t, append(slices.Clone(s[:n-1]), 1), row.Shape)
				require.Equal(t, append(slices.Clone(s[:n-2]), 1, s[n-1]), in[fmt.Sprintf("w%d_col_var", k)].Shape)
			}
		}
	}
}

// matrixSteps are the steps of a graph of three matrices and a head, with gradients that in gives.
func matrixSteps(t *testing.T, o autograd.Optimizer, options autograd.Options) (step,
	update func(map[string]*executor.Tensor), in map[string]*executor.Tensor) {
	shapes := [][]int{{3, 5}, {5, 3}, {4, 4}, {2, 2}}
	step, update = stepsOf(t, ofShapes(t, shapes, true), len(shapes), options, o)
	in = map[string]*executor.Tensor{"scale": like([]int{}, 4), "lr": like([]int{}, 0.125)}
	r := rand.New(rand.NewPCG(1, 2))
	for k, s := range shapes {
		in[fmt.Sprint("x", k)] = identity(s[0])
		for _, name := range []string{fmt.Sprint("w", k), fmt.Sprintf("y%d_grad_seed", k)} {
			x := make([]float32, s[0]*s[1])
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			in[name] = like(s, x...)
		}
	}
	return step, update, in
}

// TestMatrixOptimizersSkip: a gradient that is not finite leaves parameters and states as they were, be it found by a
// loss scale or by a guard, in the step or in the update of sums.
func TestMatrixOptimizersSkip(t *testing.T) {
	for _, kind := range []string{"muon", "adafactor"} {
		for _, guard := range []bool{false, true} {
			for _, accumulate := range []bool{false, true} {
				what := fmt.Sprintf("%s, guard %v, sums %v", kind, guard, accumulate)
				options := autograd.Options{Accumulate: accumulate}
				if !guard {
					options.LossScale = "scale"
				}
				o := autograd.Optimizer{Kind: kind, Guard: guard, WeightDecay: 0.1}
				step, update, in := matrixSteps(t, o, options)
				all := func() {
					if step(in); update != nil {
						update(in)
					}
				}
				start := maps.Clone(in)
				all()
				require.NotEqual(t, start["w0"].Data, in["w0"].Data, what)
				after := maps.Clone(in)
				bad := in["y2_grad_seed"]
				in["y2_grad_seed"] = like(bad.Shape, slices.Repeat([]float32{float32(math.Inf(1))}, bad.Len())...)
				all()
				for name, x := range after {
					if name != "y2_grad_seed" && !strings.HasSuffix(name, autograd.SumSuffix) {
						require.Equal(t, x.Data, in[name].Data, "%s: %s", what, name)
					}
				}
				in["y2_grad_seed"] = bad
				all()
				require.NotEqual(t, after["w0"].Data, in["w0"].Data, what)
			}
		}
	}
}

// TestMatrixOptimizersClip: a bound of the norm gives the update of gradients that are scaled so, and a rate that an
// input gives that of the same number. Groups have rates of their own.
func TestMatrixOptimizersClip(t *testing.T) {
	for _, kind := range []string{"muon", "adafactor"} {
		run := func(o autograd.Optimizer, scale float32) map[string]*executor.Tensor {
			o.Kind = kind
			step, _, in := matrixSteps(t, o, autograd.Options{})
			for range 2 {
				for k := range 4 {
					name := fmt.Sprintf("y%d_grad_seed", k)
					x := slices.Clone(executor.Of[float32](in[name]))
					for i := range x {
						x[i] *= scale
					}
					in[name] = like(in[name].Shape, x...)
				}
				step(in)
				scale = 1
			}
			return in
		}
		near := func(what string, want, got map[string]*executor.Tensor) {
			for name, x := range want {
				if x.DType == graph.Float32 && !strings.HasSuffix(name, "grad_seed") && name != "lr" {
					require.InDeltaSlice(t, executor.Of[float32](x), executor.Of[float32](got[name]), 1e-5,
						"%s, %s: %s", kind, what, name)
				}
			}
		}
		norm := 0.0
		_, _, in := matrixSteps(t, autograd.Optimizer{Kind: kind, LR: 0.125}, autograd.Options{})
		for k := range 4 {
			for _, x := range executor.Of[float32](in[fmt.Sprintf("y%d_grad_seed", k)]) {
				norm += float64(x) * float64(x)
			}
		}
		bound := 0.25 * math.Sqrt(norm)
		near("bound", run(autograd.Optimizer{LR: 0.125}, 0.25), run(autograd.Optimizer{LR: 0.125, MaxNorm: bound}, 1))
		plain := run(autograd.Optimizer{LR: 0.125, WeightDecay: 0.5}, 1)
		near("rate", plain, run(autograd.Optimizer{WeightDecay: 0.5}, 1))
		half := run(autograd.Optimizer{LR: 0.125, Groups: []autograd.Group{{Match: []string{"w0"}, LRScale: 0.5}}}, 1)
		own := run(autograd.Optimizer{LR: 0.0625}, 1)
		require.Equal(t, own["w0"].Data, half["w0"].Data, kind)
		require.NotEqual(t, own["w1"].Data, half["w1"].Data, kind)
	}
}
