package autograd

import (
	"fmt"
	"math"

	"memopt/graph"
	"memopt/graph/op"
)

// AdjustLRs are the ways in which muon scales the learning rate by the shape of a matrix, as in torch.optim.Muon:
// match_rms_adamw, 0.2·√max(rows, columns), gives steps of the size of AdamW's, which updates the other parameters
// with the same rate; original is √max(1, rows/columns).
var AdjustLRs = []string{"match_rms_adamw", "original"}

// The coefficients, the number of iterations and the least norm of muon's Newton-Schulz iteration are those of
// torch.optim.Muon (torch/optim/_muon.py of PyTorch 2.15), from Keller Jordan's implementation.
const (
	muonA, muonB, muonC = 3.4445, -4.7750, 2.0315
	muonSteps           = 5
	muonEps             = 1e-7
)

// hiddenMatrices are the parameters that muon updates: matrices that the forward half reads in products alone, through
// casts and transposes, but for that of the last such product, the head. So tables, which a Gather reads as well, a
// head that is tied to one, vectors, and the weights of convolutions are no hidden matrices.
func hiddenMatrices(j *Joint) map[string]bool {
	g := j.Model.Graph
	from, hidden := make([]Value, len(g.Values)), map[Value]bool{} // from: the matrix that a value shows
	for v := range from {
		from[v] = None
	}
	for _, name := range j.Wrt {
		v, ok := g.Lookup(name)
		if ok && g.Values[v].Type.Shape.Ranked && g.Values[v].Type.Shape.Rank() == 2 {
			from[v], hidden[v] = v, true
		}
	}
	last := None
	for i, n := range g.Nodes {
		if i >= int(j.Backward) {
			break
		}
		info := op.Of(n.Kind)
		for _, v := range n.Inputs {
			switch {
			case v == None || from[v] == None:
			case info.Has(op.CastRole) || info.Has(op.TransposeRole) || info.Has(op.IdentityRole):
				from[n.Output(0)] = from[v]
			case info.Has(op.ShapeOf):
			case op.WidthsOf(n.Kind) == op.Narrow && info.Class == op.Expensive:
				last = from[v]
			default:
				hidden[from[v]] = false
			}
		}
		for _, v := range n.Captures() {
			if from[v] != None {
				hidden[from[v]] = false
			}
		}
	}
	names := map[string]bool{}
	for v, is := range hidden {
		if is && v != last {
			names[g.ValueName(v)] = true
		}
	}
	return names
}

// tellHidden tells muon's parameters in the step that makes the gradients.
func (u *updater) tellHidden(j *Joint) {
	if u.rule() != "muon" {
		return
	}
	u.hidden = hiddenMatrices(j)
	if j.Mixed != nil && j.Mixed.Half == graph.BFloat16 {
		u.low = graph.BFloat16
	}
}

// ruleOf is the rule of a parameter's update.
func (u *updater) ruleOf(i int) string {
	if u.rule() == "muon" && !u.hidden[u.j.g.ValueName(u.params[i])] {
		return "adamw"
	}
	return u.rule()
}

// muon: p' = p - lr·adjusted·orthogonal(c), where c is the gradient with Nesterov's momentum.
func (u *updater) muon(param, old, c Value, pace *pace) Value {
	dims, ok := u.constDims(param)
	if !ok {
		u.must(fmt.Errorf("optimizer %s: parameter %q is %v: wanted a fixed shape, which scales its learning rate",
			u.Kind, u.j.g.ValueName(param), u.Type(param)))
	}
	rows, columns := float64(max(dims[0], 1)), float64(max(dims[1], 1))
	ratio := 0.2 * math.Sqrt(max(rows, columns))
	if u.AdjustLR == "original" {
		ratio = math.Sqrt(max(1, rows/columns))
	}
	rate := u.scalar(pace.rate, u.DType(c), 0)
	move := u.Cast(u.orthogonal(c, dims[0] > dims[1]), u.DType(c))
	return u.Sub(old, u.Mul(move, u.Mul(rate, u.Scalar(ratio, rate))))
}

// orthogonal makes all singular values of a matrix about 1, by iterations of Newton and Schulz:
// x' = a·x + (b·g + c·g²)·x with g = x·xᵀ, or in a tall matrix x' = a·x + x·(b·g + c·g²) with g = xᵀ·x, which is the
// same of the transpose. Each is three Gemm, so that no transpose is there. The products are of bfloat16 in steps that
// compute in it, as in torch.optim.Muon, and else of the type of the update.
func (u *updater) orthogonal(m Value, tall bool) Value {
	norm := u.Op("Sqrt", nil, u.Op("ReduceSumSquare", Attrs{A("keepdims", int64(0))}, m))
	x := u.Div(m, u.Op("Max", nil, norm, u.Scalar(muonEps, norm)))
	if u.low != graph.Undefined {
		x = u.Cast(x, u.low)
	}
	gemm := func(a, b, c Value, alpha, beta float64, attrs ...graph.Attr) Value {
		return u.Op("Gemm", append(Attrs{A("alpha", float32(alpha)), A("beta", float32(beta))}, attrs...), a, b, c)
	}
	side := "transB"
	if tall {
		side = "transA"
	}
	for range muonSteps {
		g := u.Op("Gemm", Attrs{A(side, int64(1))}, x, x)
		g = gemm(g, g, g, muonC, muonB)
		if tall {
			x = gemm(x, g, x, 1, muonA)
		} else {
			x = gemm(g, x, x, 1, muonA)
		}
	}
	return x
}
