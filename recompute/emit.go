package recompute

import (
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// AnchorSink receives anchors: it is the graph that Apply writes, or the program that a planner
// simulates before any graph is written. Values are those of the sink.
type AnchorSink interface {
	// Origin returns the value of the graph as it is that a value is, or is a clone of.
	Origin(v graph.ValueID) graph.ValueID
	// Newest returns the version of a value that readers at this place read: a clone, a view, or
	// itself.
	Newest(v graph.ValueID) graph.ValueID
	// Constant returns a constant of int64 numbers, the same one for the same name; NoValue where
	// constants do not count.
	Constant(name string, numbers ...int64) (graph.ValueID, error)
	// Add appends a node and returns its output.
	Add(n AnchorNode) graph.ValueID
	// SetNewest lets readers of a value read a view of it from now on.
	SetNewest(v, view graph.ValueID)
	// Itself reports whether nodes up to here have read a value of the graph itself, and not a
	// clone or view of it.
	Itself(v graph.ValueID) bool
}

// AnchorNode is a node of an anchor. It makes int64 numbers, or a view of its first input.
type AnchorNode struct {
	Kind   graph.Kind
	Inputs []graph.ValueID
	Axes   []int64 // the attribute axes; nil for a node without it
	View   AnchorView
	Axis   int           // of the dim of 1 that a Widened view has beyond the dims of Of
	Rank   int           // of the numbers that it makes: 0 or 1
	Dim    int64         // at rank 1
	Of     graph.ValueID // the value that it is named after; NoValue: the anchor
	Part   string        // the middle of its name
	Number int           // the end of its name; -1 for a name without number
}

// AnchorView says whether a node of an anchor shows a value.
type AnchorView uint8

// The two views of an anchor follow each other.
const (
	NoView  AnchorView = iota // the node makes numbers
	Widened                   // its first input with one more dim, of 1
	Whole                     // the value of its first input, with the type of Of
)

// Type returns the type of the node's output. of is that of the value Of.
func (n *AnchorNode) Type(of graph.Type) graph.Type {
	switch {
	case n.View == Whole:
		return of
	case n.View == Widened:
		of.Shape.Dims = slices.Insert(slices.Clone(of.Shape.Dims), n.Axis, symbolic.Const(1))
		return of
	case n.Rank == 1:
		return graph.Tensor(graph.Int64, graph.Ints(n.Dim))
	}
	return graph.Tensor(graph.Int64, graph.Ints())
}

// Operator sets that change the form of an anchor.
const (
	minOfInt64    = 12 // from here on Min takes int64
	axesAsOperand = 13 // from here on Unsqueeze and Squeeze read their axes as an operand
)

// AnchorEmitter knows the nodes of an anchor, whatever they are emitted into.
type AnchorEmitter struct {
	g      *graph.Graph // as it is
	sink   AnchorSink
	opset  int64
	min    graph.ValueID   // of the last anchor; NoValue before the first
	axis   graph.ValueID   // the constant [0]; NoValue where constants do not count
	zero   graph.ValueID   // [0] of the last anchor; NoValue where no value has needed it
	shapes []graph.ValueID // of the last anchor, by rank, where axes are attributes; NoValue as above
	late   []graph.ValueID // by value of the graph: the operand that it waits by once it is made, or NoValue
	listed []graph.ValueID // the late values of the last anchor
	views  []int           // by value of the graph: how many views of it there are
	folds  folding
}

// NewAnchorEmitter emits anchors of a graph in an operator set of at least MinAnchorOpset.
func NewAnchorEmitter(g *graph.Graph, opset int64, sink AnchorSink) *AnchorEmitter {
	e := &AnchorEmitter{g: g, sink: sink, opset: opset, late: make([]graph.ValueID, len(g.Values)),
		views: make([]int, len(g.Values)), folds: newFolding(g)}
	for v := range e.late {
		e.late[v] = graph.NoValue
	}
	e.Reset(sink)
	return e
}

// Reset starts anew, in another sink.
func (e *AnchorEmitter) Reset(sink AnchorSink) {
	e.sink, e.min = sink, graph.NoValue
	clear(e.views)
	e.folds.reset()
	e.forget()
}

// Waits reports whether anything has been emitted that a further anchor could wait for.
func (e *AnchorEmitter) Waits() bool { return e.min != graph.NoValue }

// forget forgets about the operands of the last anchor's views.
func (e *AnchorEmitter) forget() {
	e.zero, e.shapes = graph.NoValue, e.shapes[:0]
	for _, v := range e.listed {
		e.late[v] = graph.NoValue
	}
	e.listed = e.listed[:0]
}

// Emit emits an anchor that waits for sinks and for the anchor before, and reads values through it.
// Late values are read through it once they are made: see Follow. The error names a value that
// cannot be read through an anchor, or says that the anchor has no sink.
func (e *AnchorEmitter) Emit(sinks, values, late []graph.ValueID) error {
	if err := e.wait(sinks); err != nil {
		return err
	}
	for _, v := range sinks {
		e.folds.wait(e.sink.Origin(v))
	}
	e.forget()
	for _, v := range values {
		operand, err := e.operandOf(v)
		if err != nil {
			return err
		}
		e.view(v, operand)
	}
	for _, v := range late {
		operand, err := e.operandOf(v)
		if err != nil {
			return err
		}
		origin := e.sink.Origin(v)
		e.late[origin] = operand
		e.listed = append(e.listed, origin)
	}
	return nil
}

// Follow makes readers of a new value read it through the last anchor, if it is one of its late values.
func (e *AnchorEmitter) Follow(v graph.ValueID) {
	origin := e.sink.Origin(v)
	if origin == graph.NoValue || e.late[origin] == graph.NoValue {
		return
	}
	e.view(v, e.late[origin])
}

// view lets readers of a value read it through a pair of views from now on: one gives it a dim of 1
// at the place that the operand says, and one takes that dim away.
func (e *AnchorEmitter) view(v, operand graph.ValueID) {
	wide := AnchorNode{Kind: op.Unsqueeze, View: Widened, Of: e.sink.Origin(v), Part: "_wide", Number: -1,
		Inputs: operands(e.sink.Newest(v), operand)}
	whole := AnchorNode{Kind: op.Squeeze, View: Whole, Of: wide.Of, Number: -1}
	axis := e.axis
	if e.opset < axesAsOperand {
		wide.Kind, wide.Axis = op.Reshape, e.g.Values[wide.Of].Type.Shape.Rank()
		whole.Axes, axis = []int64{int64(wide.Axis)}, graph.NoValue
	}
	e.views[wide.Of]++
	if n := e.views[wide.Of]; n > 1 {
		wide.Number, whole.Number = n, n
	}
	whole.Inputs = operands(e.sink.Add(wide), axis)
	e.sink.SetNewest(v, e.sink.Add(whole))
}

// wait makes the number that is available once all sinks are made.
func (e *AnchorEmitter) wait(sinks []graph.ValueID) error {
	var sizes []graph.ValueID
	if e.min != graph.NoValue {
		sizes = append(sizes, e.min)
	}
	for _, v := range sinks {
		sizes = append(sizes, e.sink.Add(AnchorNode{Kind: op.Size, Of: e.sink.Origin(v), Part: "_size", Number: -1,
			Inputs: []graph.ValueID{e.sink.Newest(v)}}))
	}
	switch {
	case len(sizes) == 0:
		return errors.New("an anchor without sinks has no effect")
	case len(sizes) == 1:
		e.min = sizes[0]
	case e.opset >= minOfInt64:
		e.min = e.sink.Add(AnchorNode{Kind: op.Min, Of: graph.NoValue, Part: "_min", Number: -1, Inputs: sizes})
	default:
		return e.product(sizes)
	}
	return nil
}

// product replaces the minimum where Min does not support int64: zero times one size after the
// other, which cannot overflow.
func (e *AnchorEmitter) product(sizes []graph.ValueID) error {
	m, err := e.sink.Constant("axis", 0)
	if err != nil {
		return err
	}
	for i, size := range sizes {
		m = e.sink.Add(AnchorNode{Kind: op.Mul, Of: graph.NoValue, Part: "_min", Number: i, Rank: 1, Dim: 1,
			Inputs: operands(m, size)})
	}
	e.min = m
	return nil
}

// operandOf makes the operand that gives a view one more dim than its value: the axis 0, or a shape
// that keeps every dim and adds one of 1 behind them. There is one for each anchor, or for each
// rank.
func (e *AnchorEmitter) operandOf(v graph.ValueID) (graph.ValueID, error) {
	value := &e.g.Values[e.sink.Origin(v)]
	if why := Anchorable(value); why != "" {
		return graph.NoValue, fmt.Errorf("value %q cannot be read through an anchor: %s", value.Name, why)
	}
	if e.zero == graph.NoValue {
		var err error
		if e.axis, err = e.sink.Constant("axis", 0); err != nil {
			return graph.NoValue, err
		}
		e.zero = e.sink.Add(AnchorNode{Kind: op.Mul, Of: graph.NoValue, Part: "_zero", Number: -1, Rank: 1, Dim: 1,
			Inputs: operands(e.min, e.axis)})
	}
	if e.opset >= axesAsOperand {
		return e.zero, nil
	}
	rank := value.Type.Shape.Rank()
	for len(e.shapes) <= rank {
		e.shapes = append(e.shapes, graph.NoValue)
	}
	if e.shapes[rank] == graph.NoValue {
		dims := make([]int64, rank+1)
		dims[rank] = 1
		kept, err := e.sink.Constant(fmt.Sprintf("shape_%d", rank), dims...)
		if err != nil {
			return graph.NoValue, err
		}
		e.shapes[rank] = e.sink.Add(AnchorNode{Kind: op.Add, Of: graph.NoValue, Part: "_shape", Number: rank, Rank: 1,
			Dim: int64(rank) + 1, Inputs: operands(e.zero, kept)})
	}
	return e.shapes[rank], nil
}

// operands lists two operands, but for constants that do not count.
func operands(a, b graph.ValueID) []graph.ValueID {
	switch {
	case a == graph.NoValue:
		return []graph.ValueID{b}
	case b == graph.NoValue:
		return []graph.ValueID{a}
	}
	return []graph.ValueID{a, b}
}
