package graphtest

import (
	"fmt"
	"math/rand/v2"

	"memopt/graph"
	"memopt/symbolic"
)

// Random makes a random forward graph of about o.Nodes nodes, of operators that have rows in the
// table: a layered graph: most nodes read recent values and some read old ones. Every value_info
// and output is declared with the type that shape inference finds. With o.Symbolic the first two
// dims are symbols, "batch" and "seq". Width is the only other option that applies. It takes time
// linear in o.Nodes.
func Random(rng *rand.Rand, o Options) *graph.Model {
	r := &forward{maker: newMaker(rng, o), byType: map[string][]graph.ValueID{}}
	lead := []symbolic.Expr{symbolic.Const(4), symbolic.Const(12)}
	if o.Symbolic {
		lead = []symbolic.Expr{symbolic.Sym("batch"), symbolic.Sym("seq")}
	}
	r.g.Name = "random"
	r.lead = graph.Tensor(graph.Float32, graph.Dims(lead[0], lead[1], symbolic.Const(r.width)))
	r.keep(r.input("tokens", r.lead), r.lead)
	for len(r.g.Nodes) < o.Nodes {
		r.layer = len(r.g.Nodes) / 10
		r.step()
	}
	r.declare()
	if err := r.g.Seal(); err != nil {
		panic("graphtest: " + err.Error())
	}
	return &graph.Model{Path: "random", IRVersion: 8, ProducerName: "graphtest", Graph: r.g,
		Opsets: []graph.Opset{{Version: 17}, {Domain: "com.microsoft", Version: 1}}}
}

// forward builds a forward graph. All values that it keeps are float.
type forward struct {
	*maker
	lead   graph.Type
	pool   []graph.ValueID            // values that nodes may read
	types  []graph.Type               // of all values, by ID
	byType map[string][]graph.ValueID // the pool by type
}

// keep records a value and its type.
func (r *forward) keep(id graph.ValueID, t graph.Type) {
	r.note(id, t)
	r.pool = append(r.pool, id)
	r.byType[t.String()] = append(r.byType[t.String()], id)
}

// note records the type of a value that no other node reads.
func (r *forward) note(id graph.ValueID, t graph.Type) {
	for len(r.types) < len(r.g.Values) {
		r.types = append(r.types, graph.Type{})
	}
	r.types[id] = t
}

// pick returns a value to read: mostly one of the last few.
func (r *forward) pick() (graph.ValueID, graph.Type) {
	last := len(r.pool) - 1
	at := max(0, last-r.rng.IntN(8))
	if r.rng.IntN(8) == 0 {
		at = r.rng.IntN(len(r.pool))
	}
	id := r.pool[at]
	return id, r.types[id]
}

// lastDim returns a type's last dim, which is always a number, and its axis.
func lastDim(t graph.Type) (int64, int) {
	axis := t.Shape.Rank() - 1
	n, ok := t.Shape.Dims[axis].Const()
	if !ok {
		panic(fmt.Sprintf("graphtest: the last dim of %v is no number", t))
	}
	return n, axis
}

// withLast returns a type with other dims in place of the last.
func withLast(t graph.Type, dims ...int64) graph.Type {
	keep := t.Shape.Dims[:t.Shape.Rank()-1]
	return graph.Tensor(t.DType, graph.Dims(append(keep[:len(keep):len(keep)], graph.Ints(dims...).Dims...)...))
}

// step appends one operator, or a few that belong together.
func (r *forward) step() {
	x, t := r.pick()
	n, _ := lastDim(t)
	steps := []func(graph.ValueID, graph.Type, int64){r.matmul, r.binary, r.binary, r.bias, r.unary, r.norm, r.dropout,
		r.cast, r.split, r.merge, r.transpose, r.concat}
	steps[r.rng.IntN(len(steps))](x, t, n)
}

func (r *forward) parameter(dims ...int64) graph.ValueID {
	id := r.weight(dims...)
	r.note(id, graph.Tensor(graph.Float32, graph.Ints(dims...)))
	return id
}

func (r *forward) matmul(x graph.ValueID, t graph.Type, n int64) {
	out := int64(16 << r.rng.IntN(4))
	r.keep(r.one("", "MatMul", nil, x, r.parameter(n, out)), withLast(t, out))
}

// binary joins two values of one type.
func (r *forward) binary(x graph.ValueID, t graph.Type, _ int64) {
	same := r.byType[t.String()]
	op := []string{"Add", "Mul", "Sub"}[r.rng.IntN(3)]
	r.keep(r.one("", op, nil, x, same[r.rng.IntN(len(same))]), t)
}

func (r *forward) bias(x graph.ValueID, t graph.Type, n int64) {
	r.keep(r.one("", "Add", nil, r.parameter(n), x), t)
}

func (r *forward) unary(x graph.ValueID, t graph.Type, _ int64) {
	ops := [][2]string{{"", "Relu"}, {"", "Tanh"}, {"", "Erf"}, {"com.microsoft", "Gelu"}, {"", "Softmax"},
		{"", "Sigmoid"}}
	op := ops[r.rng.IntN(len(ops))]
	var attrs []graph.Attr
	if op[1] == "Softmax" {
		attrs = []graph.Attr{num("axis", -1)}
	}
	r.keep(r.one(op[0], op[1], attrs, x), t)
}

// norm has its optional outputs in half of the cases.
func (r *forward) norm(x graph.ValueID, t graph.Type, n int64) {
	outputs := 1 + 2*r.rng.IntN(2)
	attrs := []graph.Attr{num("axis", -1), {Name: "epsilon", Value: float32(1e-5)}}
	out := r.add("", "LayerNormalization", outputs, attrs, x, r.parameter(n), r.parameter(n))
	for _, id := range out[1:] {
		r.note(id, withLast(t, 1))
	}
	r.keep(out[0], t)
}

func (r *forward) dropout(x graph.ValueID, t graph.Type, _ int64) {
	out := r.add("", "Dropout", 1+r.rng.IntN(2), []graph.Attr{num("seed", int64(r.rng.IntN(1000)))}, x)
	if len(out) > 1 {
		r.note(out[1], graph.Tensor(graph.Bool, t.Shape))
	}
	r.keep(out[0], t)
}

// cast goes to float16 and back.
func (r *forward) cast(x graph.ValueID, t graph.Type, _ int64) {
	half := r.one("", "Cast", []graph.Attr{num("to", int64(graph.Float16))}, x)
	r.note(half, graph.Tensor(graph.Float16, t.Shape))
	r.keep(r.one("", "Cast", []graph.Attr{num("to", int64(graph.Float32))}, half), t)
}

// split makes two dims of the last one, where the rank stays small.
func (r *forward) split(x graph.ValueID, t graph.Type, n int64) {
	rank := t.Shape.Rank()
	if rank >= 5 || n < 4 {
		r.unary(x, t, n)
		return
	}
	target := make([]int64, rank+1) // zeros keep a dim
	target[rank-1], target[rank] = 4, n/4
	r.keep(r.one("", "Reshape", nil, x, r.target(target)), withLast(t, 4, n/4))
}

// target is a constant shape.
func (r *forward) target(dims []int64) graph.ValueID {
	rank := []int64{int64(len(dims))}
	id := r.constant(rank, dims...)
	r.note(id, graph.Tensor(graph.Int64, graph.Ints(rank...)))
	return id
}

// merge makes one dim of the last two.
func (r *forward) merge(x graph.ValueID, t graph.Type, n int64) {
	rank := t.Shape.Rank()
	before, ok := t.Shape.Dims[rank-2].Const()
	if rank <= 3 || !ok || before*n > 1<<12 {
		r.bias(x, t, n)
		return
	}
	target := make([]int64, rank-1)
	target[rank-2] = before * n
	whole := graph.Tensor(t.DType, graph.Shape{Dims: t.Shape.Dims[:rank-1], Ranked: true})
	r.keep(r.one("", "Reshape", nil, x, r.target(target)), withLast(whole, before*n))
}

// transpose swaps two dims other than the last, which stays a number.
func (r *forward) transpose(x graph.ValueID, t graph.Type, _ int64) {
	perm := make([]int64, t.Shape.Rank())
	for i := range perm {
		perm[i] = int64(i)
	}
	a, b := r.rng.IntN(len(perm)-1), r.rng.IntN(len(perm)-1)
	perm[a], perm[b] = perm[b], perm[a]
	turned := make([]symbolic.Expr, len(perm))
	for i, p := range perm {
		turned[i] = t.Shape.Dims[p]
	}
	r.keep(r.one("", "Transpose", []graph.Attr{ints("perm", perm...)}, x), graph.Tensor(t.DType, graph.Dims(turned...)))
}

// concat puts two values of one type side by side.
func (r *forward) concat(x graph.ValueID, t graph.Type, n int64) {
	if n > 256 {
		r.matmul(x, t, n)
		return
	}
	same := r.byType[t.String()]
	r.keep(r.one("", "Concat", []graph.Attr{num("axis", -1)}, x, same[r.rng.IntN(len(same))]), withLast(t, 2*n))
}

// declare makes the values that are not read graph outputs and declares all others.
func (r *forward) declare() {
	read := make([]bool, len(r.g.Values))
	for _, n := range r.g.Nodes {
		for _, id := range n.Inputs {
			read[id] = true
		}
	}
	for i := range r.g.Values {
		v := &r.g.Values[i]
		if v.Def == graph.NoNode {
			continue
		}
		d := graph.Decl{Value: graph.ValueID(i), Type: r.types[i]}
		if !read[i] {
			r.output(d.Value, d.Type)
			continue
		}
		v.Type = d.Type
		r.g.ValueInfo = append(r.g.ValueInfo, d)
	}
}
