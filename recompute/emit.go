package recompute

import (
	"errors"
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// AnchorSink is what anchors are emitted into: the graph that Apply writes, or the program that a
// planner simulates before any graph is written. Values are those of the sink.
type AnchorSink interface {
	// Origin returns the value of the graph as it is that a value is, or is a clone of.
	Origin(v graph.ValueID) graph.ValueID
	// Newest returns what readers of a value read at this place: a clone, a view, or itself.
	Newest(v graph.ValueID) graph.ValueID
	// Zeros returns a constant of the given number of zeros; NoValue where constants do not count.
	Zeros(n int) (graph.ValueID, error)
	// Add appends a node and returns what it makes.
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
	View   bool          // it is a view of its first input, with the type of Of
	Rank   int           // of the numbers that it makes: 0 or 1
	Dim    int64         // at rank 1
	Of     graph.ValueID // the value that it is named after; NoValue: the anchor
	Part   string        // what follows in its name
	Number int           // and behind that; -1: nothing
}

// minOfInt64 is the operator set from which on Min takes int64.
const minOfInt64 = 12

// AnchorEmitter knows the nodes of an anchor, whatever they are emitted into.
type AnchorEmitter struct {
	g      *graph.Graph // as it is
	sink   AnchorSink
	opset  int64
	min    graph.ValueID   // of the last anchor; NoValue before the first
	zeros  []graph.ValueID // of the last anchor, by rank; NoValue where no value has needed them
	late   []graph.ValueID // by value of the graph: the zeros that it waits by once it is made, or NoValue
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

// forget forgets about the zeros of the last anchor.
func (e *AnchorEmitter) forget() {
	e.zeros = e.zeros[:0]
	for _, v := range e.listed {
		e.late[v] = graph.NoValue
	}
	e.listed = e.listed[:0]
}

// Emit emits an anchor that waits for sinks and for the anchor before, and reads values through it.
// Late values are read through it once they are made: see Follow. The error says which value cannot
// be read through an anchor, or that there is nothing to wait for.
func (e *AnchorEmitter) Emit(sinks, values, late []graph.ValueID) error {
	if err := e.wait(sinks); err != nil {
		return err
	}
	for _, v := range sinks {
		e.folds.wait(e.sink.Origin(v))
	}
	e.forget()
	for _, v := range values {
		zeros, err := e.zerosOf(v)
		if err != nil {
			return err
		}
		e.view(v, zeros)
	}
	for _, v := range late {
		zeros, err := e.zerosOf(v)
		if err != nil {
			return err
		}
		origin := e.sink.Origin(v)
		e.late[origin] = zeros
		e.listed = append(e.listed, origin)
	}
	return nil
}

// Follow lets a value that has just been made be read through the last anchor, if it is one of its
// late values.
func (e *AnchorEmitter) Follow(v graph.ValueID) {
	origin := e.sink.Origin(v)
	if origin == graph.NoValue || e.late[origin] == graph.NoValue {
		return
	}
	e.view(v, e.late[origin])
}

// view lets readers of a value read it through a Reshape by zeros from now on.
func (e *AnchorEmitter) view(v, zeros graph.ValueID) {
	n := AnchorNode{Kind: op.Reshape, View: true, Of: e.sink.Origin(v), Number: -1,
		Inputs: []graph.ValueID{e.sink.Newest(v), zeros}}
	e.views[n.Of]++
	if e.views[n.Of] > 1 {
		n.Number = e.views[n.Of]
	}
	e.sink.SetNewest(v, e.sink.Add(n))
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
		return errors.New("an anchor without sinks holds nothing back")
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
	m, err := e.sink.Zeros(1)
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

// zerosOf makes the zeros by which Reshape keeps every dim of a value, once for each rank.
func (e *AnchorEmitter) zerosOf(v graph.ValueID) (graph.ValueID, error) {
	value := &e.g.Values[e.sink.Origin(v)]
	if why := Anchorable(value); why != "" {
		return graph.NoValue, fmt.Errorf("value %q cannot be read through an anchor: %s", value.Name, why)
	}
	rank := value.Type.Shape.Rank()
	for len(e.zeros) <= rank {
		e.zeros = append(e.zeros, graph.NoValue)
	}
	if e.zeros[rank] == graph.NoValue {
		zeros, err := e.sink.Zeros(rank)
		if err != nil {
			return graph.NoValue, err
		}
		e.zeros[rank] = e.sink.Add(AnchorNode{Kind: op.Mul, Of: graph.NoValue, Part: "_zeros", Number: rank, Rank: 1,
			Dim:    int64(rank),
			Inputs: operands(e.min, zeros)})
	}
	return e.zeros[rank], nil
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
