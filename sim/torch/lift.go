package torch

import (
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
)

// lift says that a node is the last of several that were exported from one operator.
type lift struct {
	row    *liftRow
	match  *pattern.Match
	inside bool // it is one of the others
}

// liftRow is a row of the table of such nodes.
type liftRow struct {
	form    string
	row     row
	fits    func(b *builder, m *pattern.Match) bool // nil: always
	pattern *pattern.Pattern
}

// scores are the products of queries and keys in an attention, both scaled by the root of the scale as torch.onnx does
// for scaled_dot_product_attention alone; a mask may be added. The exporter on torch.export transposes keys in three
// dims.
const (
	scores = `s: Softmax({Add(` + keyed + `, mask) | ` + keyed + `})`
	keyed  = `MatMul(Mul(q, a), Mul({Reshape(t: Transpose(Reshape(k, r)), p) | k}, b))`
)

// liftRows are the nodes that torch.onnx writes for one operator of PyTorch. Among rows with the same
// last node the first that fits counts, and later nodes come first.
var liftRows = []liftRow{
	{form: `Mul(Mul(x, ` + pattern.Twice + `), 0.5)`, row: row{aten: "gelu", saves: input, run: unary}},
	{form: `Mul(Mul(x, 0.5), ` + pattern.Twice + `)`, row: row{aten: "gelu", saves: input, run: unary}},
	{form: `Mul(Mul(x, Add(Tanh(Mul(Add(x, Mul(Mul(x, Mul(x, x)), 0.044715)), 0.7978845608028654)), 1)), 0.5)`,
		row: row{aten: "gelu", saves: input, run: unary}},
	{form: `Mul(x, Tanh(Softplus(x)))`, row: row{aten: "mish", saves: input, run: unary}},
	{form: `Mul(x, s: Sigmoid(x))`, row: row{aten: "silu", saves: input, run: unary}, fits: isSilu},
	{form: `Mul(x, h: HardSigmoid(x))`, row: row{aten: "hardswish", saves: input, run: unary}},
	{form: `Add(Mul(Div(` + pattern.Centred + `, ` + pattern.Spread + `), w), b)`,
		row: row{aten: "native_layer_norm", run: layerNorm}, fits: beforeLayerNorm},
	{form: `Div(` + pattern.Centred + `, ` + pattern.Spread + `)`,
		row: row{aten: "native_layer_norm", run: layerNorm}, fits: beforeLayerNorm},
	{form: `Add(Mul(Reshape(InstanceNormalization(Reshape(x, p), s, b), q), w), v)`,
		row: row{aten: "native_group_norm", run: groupNorm}},
	{form: `ReduceMean(Mul(c: Sub(x, ReduceMean(x)), c))`, row: row{aten: "var", run: variance}},
	{form: `Mul(Div(v, n: ReduceL2(v)), g)`, row: row{aten: "_weight_norm_interface", run: weightNorm}},
	{form: `Reciprocal(Sqrt(x))`, row: row{aten: "rsqrt", saves: result, temps: 2, run: unary}},
	{form: `Div(1, Sqrt(x))`, row: row{aten: "rsqrt", saves: result, temps: 2, run: unary}},
	{form: `Neg(Add(Mul(y, Log(s: Sigmoid(x))), Mul(Sub(1, y), Log(Sub(1, s)))))`,
		row: row{aten: "binary_cross_entropy_with_logits", run: logitsEntropy}},
	{form: `MatMul({Where(IsNaN(` + scores + `), 0, s) | ` + scores + `}, v)`,
		row: row{aten: "_scaled_dot_product_flash_attention_for_cpu", run: attention}, fits: isFlash},
	{form: `Add(MatMul(x, w), b)`, row: row{aten: "addmm", run: linear}, fits: isLinear},
}

var liftsOf [op.NumKinds][]*liftRow

func init() {
	for i := range liftRows {
		r := &liftRows[i]
		r.pattern = pattern.Parse(r.form)
		liftsOf[r.pattern.Last()] = append(liftsOf[r.pattern.Last()], r)
	}
}

// lift finds the nodes that together are one operator.
func (b *builder) lift() {
	b.lifts = make([]lift, len(b.g.Nodes))
	number := func(v graph.ValueID) (float64, bool) { return pattern.Number(b.g, v) }
	readers := func(v graph.ValueID) int32 { return b.reads[v] }
	never := func(graph.ValueID) bool { return false }
	for i := len(b.g.Nodes) - 1; i >= 0; i-- {
		n := b.g.Nodes[i]
		for _, r := range liftsOf[n.Kind] {
			if b.lifts[i].inside {
				break
			}
			m := r.pattern.Find(b.g, n, number)
			if m == nil || !m.Closed(readers, never) || b.taken(m) || r.fits != nil && !r.fits(b, m) {
				continue
			}
			b.lifts[i] = lift{row: r, match: m}
			for _, inner := range m.Nodes[1:] {
				b.lifts[inner.ID].inside = true
			}
			break
		}
	}
}

// taken reports whether a node of a match is part of another one, or of another module than the last.
func (b *builder) taken(m *pattern.Match) bool {
	for _, n := range m.Nodes {
		if b.lifts[n.ID].inside || b.lifts[n.ID].row != nil || b.o.Tree.Of[n.ID] != b.o.Tree.Of[m.Nodes[0].ID] {
			return true
		}
	}
	return false
}

// isSilu reports whether x·σ(x) is a SiLU: where the file lists classes, in a module of that class; a program may
// have written it in two operators, which save more.
func isSilu(b *builder, m *pattern.Match) bool {
	t := b.o.Tree
	call := t.Of[m.Nodes[0].ID]
	if !t.Listed || call < 0 {
		return !t.Listed
	}
	class := t.Modules[t.Calls[call].Module].Class
	return strings.HasPrefix(class[strings.LastIndexByte(class, '.')+1:], "SiLU") // SiLUActivation in transformers
}

// isFlash reports whether an attention is one operator: no gradient of its mask is wanted. The CPU computes an
// attention with dropout in several operators, too; the pattern has no dropout (sdp::select_sdp_backend_cpp).
func isFlash(b *builder, m *pattern.Match) bool {
	for _, name := range []string{"a", "b"} {
		if t, err := b.sized(m.Named(name)); err != nil || elements(t.dims) != 1 {
			return false
		}
	}
	if t := m.Named("t"); t != graph.NoValue && (b.rank(t) != 3 || b.rank(m.Named("k")) != 4) {
		return false
	}
	mask := m.Named("mask")
	return b.rank(m.Named("q")) == 4 && (mask == graph.NoValue || !b.trained(mask))
}

// rank is how many dims a value has.
func (b *builder) rank(v graph.ValueID) int { return len(b.g.Values[v].Type.Shape.Dims) }

// trained reports whether a value is computed of a parameter.
func (b *builder) trained(v graph.ValueID) bool {
	if b.ofWrt == nil {
		b.ofWrt = make([]bool, len(b.g.Values))
		for _, name := range b.o.Wrt {
			if w, ok := b.g.Lookup(name); ok {
				b.ofWrt[w] = true
			}
		}
		for _, n := range b.g.Nodes { // each after those that it reads
			of := slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return v != graph.NoValue && b.ofWrt[v] })
			for _, out := range n.Outputs {
				if of && out != graph.NoValue && b.g.Values[out].Type.DType.IsFloat() {
					b.ofWrt[out] = true
				}
			}
		}
	}
	return b.ofWrt[v]
}

// layerNormSince is the first operator set that lets torch.onnx write a layer's norm as one
// operator.
const layerNormSince = 17

// beforeLayerNorm reports whether the exporter had to write a layer's norm in many nodes; later, a program did.
func beforeLayerNorm(b *builder, _ *pattern.Match) bool { return b.opset < layerNormSince }

// isLinear reports whether a product and a sum are a layer with a bias: the other operand of the sum is
// a parameter or buffer with one dim, and the right factor a matrix.
func isLinear(b *builder, m *pattern.Match) bool {
	bias, w := &b.g.Values[m.Named("b")], &b.g.Values[m.Named("w")]
	return (bias.IsInitializer() || bias.Input) && bias.Type.Shape.Rank() == 1 && w.Type.Shape.Rank() == 2
}
