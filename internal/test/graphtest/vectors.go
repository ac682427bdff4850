package graphtest

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// longest bounds the length of a graph's vectors.
const longest = 10_000

// Vectors makes a small training graph of the given number of nodes on vectors of many lengths, with a YieldOp
// or a loss in the middle and some values as outputs. Types are inferred. draw returns a number
// below its argument.
func Vectors(nodes int, draw func(n int) int) *graph.Model {
	b := newVectorMaker(draw)
	yield := draw(2) == 0
	for i := range nodes {
		switch {
		case i == nodes/2 && yield:
			b.add("com.microsoft", "YieldOp", []graph.Attr{{Name: "full_shape_outputs", Value: []int64{0}}}, b.some())
		case i == nodes/2:
			b.add("", "ReduceMean", []graph.Attr{{Name: "keepdims", Value: int64(0)}}, b.some())
			b.output(graph.Tensor(graph.Float32, graph.Dims()))
			b.values = b.values[:len(b.values)-1] // a scalar does not go into a Concat
		default:
			b.operator()
		}
	}
	b.output(graph.Type{Form: graph.FormTensor, DType: graph.Float32})
	b.check(b.g.Seal())
	m := &graph.Model{Path: "tiny", IRVersion: 8, Graph: b.g,
		Opsets: []graph.Opset{{Version: 17}, {Domain: "com.microsoft", Version: 1}}}
	op.Bind(m)
	_, err := op.Infer(m)
	b.check(err)
	return m
}

// vectorMaker builds the graph.
type vectorMaker struct {
	g      *graph.Graph
	draw   func(n int) int
	x      graph.ValueID
	values []graph.ValueID // values that nodes may read
	length map[graph.ValueID]int
}

func newVectorMaker(draw func(n int) int) *vectorMaker {
	g := graph.New("tiny", nil)
	x := g.Value("x")
	b := &vectorMaker{g: g, draw: draw, x: x, values: []graph.ValueID{x}, length: map[graph.ValueID]int{x: 100}}
	b.check(g.AddInput(graph.Decl{Value: x, Type: graph.Tensor(graph.Float32, graph.Ints(100))}))
	return b
}

func (b *vectorMaker) check(err error) {
	if err != nil {
		panic("graphtest: " + err.Error())
	}
}

// some draws a value, rather a late one.
func (b *vectorMaker) some() graph.ValueID {
	return b.values[max(b.draw(len(b.values)), b.draw(len(b.values)))]
}

// operator adds a node of a drawn kind.
func (b *vectorMaker) operator() {
	switch {
	case b.draw(3) == 0:
		v, w := b.some(), b.some()
		if b.length[v]+b.length[w] > longest {
			v, w = b.x, b.x
		}
		b.add("", "Concat", []graph.Attr{{Name: "axis", Value: int64(0)}}, v, w)
	case b.draw(3) == 0:
		b.add("", "ReduceMax", []graph.Attr{{Name: "keepdims", Value: int64(1)}}, b.some())
	case b.draw(4) == 0:
		b.add("", "Dropout", nil, b.some())
	default:
		b.add("", []string{"Relu", "Exp", "Softplus"}[b.draw(3)], nil, b.some())
	}
}

// add appends a node; its output is a value that later ones may read.
func (b *vectorMaker) add(domain, name string, attrs []graph.Attr, in ...graph.ValueID) {
	n := &graph.Node{Name: fmt.Sprintf("n%d", len(b.g.Nodes)), Op: name, Domain: domain, Inputs: in, Attrs: attrs}
	out := b.g.Value(n.Name + "_out")
	n.Outputs = []graph.ValueID{out}
	b.check(b.g.AddNode(n))
	b.values = append(b.values, out)
	switch name {
	case "Concat":
		b.length[out] = b.length[in[0]] + b.length[in[1]]
	case "ReduceMax":
		b.length[out] = 1
	default:
		b.length[out] = b.length[in[0]]
	}
}

// output declares the last value as an output of the graph.
func (b *vectorMaker) output(t graph.Type) {
	b.check(b.g.AddOutput(graph.Decl{Value: b.values[len(b.values)-1], Type: t}))
}

// EachOrder calls f with every topological order of a graph. The order is valid until f returns.
func EachOrder(g *graph.Graph, f func(graph.Order)) {
	done := make([]bool, len(g.Nodes))
	var order graph.Order
	var rest func()
	rest = func() {
		if len(order) == len(done) {
			f(order)
			return
		}
		for i := range done {
			waits := done[i]
			g.EachProducer(graph.NodeID(i), func(p graph.NodeID) { waits = waits || !done[p] })
			if waits {
				continue
			}
			done[i] = true
			order = append(order, graph.NodeID(i))
			rest()
			order = order[:len(order)-1]
			done[i] = false
		}
	}
	rest()
}
