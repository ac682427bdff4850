// Package graphtest makes random graphs for tests and benchmarks, and compares
// models.
package graphtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Options of Training.
type Options struct {
	Nodes    int  // about how many nodes the graph has
	Symbolic bool // the batch is a symbol "N" in place of 256
	Yield    bool // the halves meet at a YieldOp; else at a scalar loss
	// Layers makes the forward half of equal blocks, as networks are, in place of random operators.
	Layers bool
	// Control has some of the operators stand in the subgraphs of If, Loop and Scan nodes, which
	// read values around them.
	Control bool
	// Parts has some operators compute on the first rows and on the others apart: activations and
	// gradients are cut along the batch and joined again. Not with Symbolic: dims would become long
	// sums.
	Parts bool
	// Rows and Width are the dims of all activations; 0 means 256 (the symbol "N" with Symbolic)
	// and 64.
	Rows, Width int64
}

// Training makes a random joint graph: a forward half of operators that training graphs use, a
// YieldOp or a loss, and a backward half that reads forward values in reverse. The graph is valid
// and its shapes agree; its gradients are not those of the forward half. It takes time linear in
// Nodes.
func Training(rng *rand.Rand, o Options) *graph.Model {
	b := newMaker(rng, o)
	forward := o.Nodes * 2 / 5
	for layer := 0; len(b.g.Nodes) < forward; layer++ {
		b.layer = layer
		b.block()
	}
	grad := b.boundary()
	for i := len(b.tape) - 1; i >= 0; i-- {
		grad = b.tape[i](grad)
	}
	b.output(grad, b.act)
	if err := b.g.Seal(); err != nil {
		panic("graphtest: " + err.Error())
	}
	m := &graph.Model{Path: "random", IRVersion: 8, ProducerName: "graphtest", Graph: b.g,
		Opsets: []graph.Opset{{Version: 17}, {Domain: "com.microsoft", Version: 1}}}
	op.Bind(m)
	return m
}

// maker builds the graph. cur is the value at the end of the forward half so far.
type maker struct {
	rng    *rand.Rand
	opts   Options
	g      *graph.Graph
	batch  symbolic.Expr
	width  int64
	act    graph.Type // of activations
	cur    graph.ValueID
	past   []graph.ValueID // activations so far
	tape   []func(grad graph.ValueID) graph.ValueID
	layer  int
	serial int
}

func newMaker(rng *rand.Rand, o Options) *maker {
	b := &maker{rng: rng, opts: o, g: graph.New("training", nil), batch: symbolic.Const(cmp.Or(o.Rows, 256)),
		width: cmp.Or(o.Width, 64)}
	if o.Symbolic {
		b.batch = symbolic.Sym("N")
	}
	b.act = graph.Tensor(graph.Float32, graph.Dims(b.batch, symbolic.Const(b.width)))
	b.cur = b.input("x", b.act)
	b.past = []graph.ValueID{b.cur}
	return b
}

func (b *maker) input(name string, t graph.Type) graph.ValueID {
	id := b.g.Value(name)
	if err := b.g.AddInput(graph.Decl{Value: id, Type: t}); err != nil {
		panic("graphtest: " + err.Error())
	}
	return id
}

func (b *maker) weight(shape ...int64) graph.ValueID {
	b.serial++
	return b.input(fmt.Sprintf("h.%d.weight_%d", b.layer, b.serial), graph.Tensor(graph.Float32, graph.Ints(shape...)))
}

func (b *maker) constant(dims []int64, elems ...int64) graph.ValueID {
	b.serial++
	id, err := b.g.AddInitializer(graph.Int64Tensor(fmt.Sprintf("const_%d", b.serial), dims, elems...))
	if err != nil {
		panic("graphtest: " + err.Error())
	}
	return id
}

func (b *maker) output(id graph.ValueID, t graph.Type) {
	if b.g.Values[id].Output || b.g.Values[id].Def == graph.NoNode {
		return
	}
	if err := b.g.AddOutput(graph.Decl{Value: id, Type: t}); err != nil {
		panic("graphtest: " + err.Error())
	}
}

// add appends a node with the given number of outputs and returns the first.
func (b *maker) add(domain, name string, outputs int, attrs []graph.Attr, inputs ...graph.ValueID) []graph.ValueID {
	b.serial++
	n := &graph.Node{Name: fmt.Sprintf("/h.%d/%s_%d", b.layer, name, b.serial), Op: name, Domain: domain,
		Inputs: inputs, Attrs: attrs}
	for i := range outputs {
		n.Outputs = append(n.Outputs, b.g.Value(fmt.Sprintf("%s_output_%d", n.Name, i)))
	}
	if err := b.g.AddNode(n); err != nil {
		panic("graphtest: " + err.Error())
	}
	return n.Outputs
}

func (b *maker) one(domain, name string, attrs []graph.Attr, inputs ...graph.ValueID) graph.ValueID {
	return b.add(domain, name, 1, attrs, inputs...)[0]
}

func ints(name string, v ...int64) graph.Attr { return graph.Attr{Name: name, Value: v} }
func num(name string, v int64) graph.Attr     { return graph.Attr{Name: name, Value: v} }

// block appends one piece of the forward half.
func (b *maker) block() {
	if b.opts.Control && b.rng.IntN(3) == 0 {
		b.control()
		return
	}
	if b.opts.Parts && !b.opts.Symbolic && b.rng.IntN(3) == 0 {
		b.parts()
		return
	}
	pieces := []func(){b.norm, b.product, b.gelu, b.residual, b.relu, b.dropout, b.casts, b.reshape, b.softmax, b.shape}
	if b.opts.Layers {
		start := b.cur
		b.norm()
		b.product()
		b.reshape()
		b.softmax()
		b.dropout()
		b.join(start)
		start = b.cur
		b.norm()
		b.product()
		b.gelu()
		b.product()
		b.join(start)
		return
	}
	pieces[b.rng.IntN(len(pieces))]()
}

// push makes a value the end of the forward half and records its gradient.
func (b *maker) push(v graph.ValueID, grad func(graph.ValueID) graph.ValueID) {
	b.cur = v
	b.past = append(b.past, v)
	b.tape = append(b.tape, grad)
}

// times is a gradient that multiplies by saved values.
func (b *maker) times(saved ...graph.ValueID) func(graph.ValueID) graph.ValueID {
	return func(g graph.ValueID) graph.ValueID {
		for _, v := range saved {
			g = b.one("", "Mul", nil, g, v)
		}
		return g
	}
}

func (b *maker) norm() {
	x, scale, bias := b.cur, b.weight(b.width), b.weight(b.width)
	out := b.add("", "LayerNormalization", 3, []graph.Attr{num("axis", -1)}, x, scale, bias)
	b.push(out[0], func(g graph.ValueID) graph.ValueID {
		grads := b.add("com.microsoft", "LayerNormalizationGrad", 3, []graph.Attr{num("axis", -1)}, g, x, scale,
			out[1], out[2])
		b.output(grads[1], graph.Tensor(graph.Float32, graph.Ints(b.width)))
		return grads[0]
	})
}

func (b *maker) product() {
	x, w := b.cur, b.weight(b.width, b.width)
	y := b.one("", "MatMul", nil, x, w)
	b.push(y, func(g graph.ValueID) graph.ValueID {
		dw := b.one("com.microsoft", "FusedMatMul", []graph.Attr{num("transA", 1)}, x, g)
		b.output(dw, graph.Tensor(graph.Float32, graph.Ints(b.width, b.width)))
		return b.one("com.microsoft", "FusedMatMul", []graph.Attr{num("transB", 1)}, g, w)
	})
}

func (b *maker) gelu() {
	x := b.cur
	b.push(b.one("com.microsoft", "Gelu", nil, x), func(g graph.ValueID) graph.ValueID {
		return b.one("com.microsoft", "GeluGrad", nil, g, x)
	})
}

func (b *maker) residual() { b.join(b.past[b.rng.IntN(len(b.past))]) }

// join adds an earlier activation.
func (b *maker) join(v graph.ValueID) {
	b.push(b.one("", "Add", nil, b.cur, v), func(g graph.ValueID) graph.ValueID { return g })
}

func (b *maker) relu() {
	y := b.one("", "Relu", nil, b.cur)
	b.push(y, b.times(y))
}

func (b *maker) dropout() {
	out := b.add("", "Dropout", 2, nil, b.cur)
	b.push(out[0], func(g graph.ValueID) graph.ValueID {
		return b.one("com.microsoft", "DropoutGrad", nil, g, out[1])
	})
}

func (b *maker) casts() {
	half := b.one("", "Cast", []graph.Attr{num("to", int64(graph.Float16))}, b.cur)
	wide := b.one("", "Cast", []graph.Attr{num("to", int64(graph.Float32))}, half)
	y := b.one("", "Softmax", []graph.Attr{num("axis", -1)}, wide)
	b.push(y, b.times(y))
}

func (b *maker) reshape() {
	parts := int64(1)
	if b.width%8 == 0 {
		parts = 8
	}
	wide := b.one("", "Reshape", nil, b.cur, b.constant([]int64{3}, 0, b.width/parts, parts))
	turned := b.one("", "Transpose", []graph.Attr{ints("perm", 0, 2, 1)}, wide)
	y := b.one("", "Reshape", nil, turned, b.constant([]int64{2}, 0, b.width))
	b.push(y, b.times(y))
}

func (b *maker) softmax() {
	y := b.one("", "Softmax", []graph.Attr{num("axis", -1)}, b.cur)
	b.push(y, func(g graph.ValueID) graph.ValueID {
		return b.one("com.microsoft", "SoftmaxGrad_13", []graph.Attr{num("axis", -1)}, g, y)
	})
}

// shape reads the shape of an activation for a Reshape in the backward half.
func (b *maker) shape() {
	x := b.cur
	shape := b.one("", "Shape", nil, x)
	b.push(b.one("", "Mul", nil, x, x), func(g graph.ValueID) graph.ValueID {
		return b.one("", "Mul", nil, b.one("", "Reshape", nil, g, shape), x)
	})
}

// boundary ends the forward half and returns the gradient that the backward half starts from.
func (b *maker) boundary() graph.ValueID {
	if b.opts.Yield {
		return b.one("com.microsoft", "YieldOp", []graph.Attr{ints("full_shape_outputs", 0)}, b.cur)
	}
	loss := b.one("", "ReduceMean", []graph.Attr{num("keepdims", 0)}, b.cur)
	b.output(loss, graph.Tensor(graph.Float32, graph.Dims()))
	return b.one("", "Mul", nil, b.cur, b.cur)
}
