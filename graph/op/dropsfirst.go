package op

import (
	"slices"

	"memopt/graph"
)

// DropsFirst reports whether a graph leaves out the first element of each row of a value [rows,
// length]: wherever it reads elements, it takes those from place 1 on. Language models do that with
// labels which they shift themselves (Hugging Face's labels[..., 1:], behind a pad at the end in
// newer releases). dims returns the dims of a value in numbers, nil where they are not known.
func DropsFirst(g *graph.Graph, v graph.ValueID, dims func(graph.ValueID) []int64) bool {
	return (&dropping{g, graph.NewUses(g), dims}).all(v)
}

type dropping struct {
	g    *graph.Graph
	uses *graph.Uses
	dims func(graph.ValueID) []int64
}

// all reports whether all that read a value leave out the first elements, and something does.
func (d *dropping) all(v graph.ValueID) bool {
	shown := slices.ContainsFunc(d.g.Outputs, func(o graph.Decl) bool { return o.Value == v })
	if shown || len(d.dims(v)) != 2 {
		return false
	}
	some := false
	for _, use := range d.uses.Of(v) {
		n := d.g.Nodes[use.Node]
		if n.Kind == Shape || n.Kind == Size {
			continue // reads no elements
		}
		if use.Slot != 0 || !d.one(n) {
			return false
		}
		some = true
	}
	return some
}

// one reports whether a reader leaves out the first elements, or hands all of them on to readers
// that do.
func (d *dropping) one(n *graph.Node) bool {
	p := &Pieces{Graph: d.g, Node: n, Dims: d.dims}
	switch n.Kind {
	case Identity, Cast:
		return d.all(n.Output(0))
	case Pad:
		data := Contents(d.g, n.Input(1))
		if data == nil {
			return false
		}
		pads, err := data.Int64s()
		return err == nil && len(pads) == 4 && pads[0] == 0 && pads[1] == 0 && d.all(n.Output(0))
	case Slice:
		x, y := p.dims(n.Input(0)), p.dims(n.Output(0))
		if len(y) != len(x) {
			return false
		}
		first, ok := p.firsts(x, y)
		if !ok || first[0] != 0 || first[1] > 1 {
			return false
		}
		return first[1] == 1 || d.all(n.Output(0))
	}
	return false
}
