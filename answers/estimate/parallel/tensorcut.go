package parallel

import (
	"memopt/graph"
	"memopt/symbolic"
)

// cutKind is the group of ranks that divide a value.
type cutKind uint8

const (
	whole    cutKind = iota
	tensor           // features, heads or tokens of the vocabulary, by tensor parallel
	sequence         // along the sequence, values that tensor parallel leaves whole
)

// cut is how a value is divided: along one axis, in Layout.TP parts.
type cut struct {
	kind cutKind
	axis int
	// The axis is [outer, divided, inner] if a reshape has settled that: for b·heads, outer is b and
	// inner 1. inner is 0 if the divided features may lie in any order, since the columns of a weight
	// can be permuted.
	outer, inner int64
}

// loose returns the cut with the place of the divided features left open.
func (c cut) loose() cut {
	c.outer, c.inner = 0, 0
	return c
}

// same reports whether two cuts divide the same axis for the same purpose.
func (c cut) same(o cut) bool { return c.kind == o.kind && (c.kind == whole || c.axis == o.axis) }

// divider finds out how the values of a graph are divided.
type divider struct {
	g     *graph.Graph
	dims  [][]int64 // by value: nil if unknown
	ways  int64     // of tensor parallel
	seq   bool      // sequence parallel
	param []bool    // by value
	back  []bool    // by node: it belongs to the backward half
	data  []bool    // by value: it depends on no parameter
	fixed []bool    // by value: annotations alone say how it is divided
	fixes []cut     // by value: its division by annotations
	// annotated is set if annotations divide the model, in place of Megatron's rule.
	annotated bool

	// next is by value the state whose next value it is, or NoValue.
	next   []graph.ValueID
	opsets []graph.Opset
	env    symbolic.Env
	params []graph.ValueID

	cuts   []cut
	role   []string        // by parameter: how it is divided; "" while undecided
	ban    []string        // by parameter: why it is not divided
	origin []graph.ValueID // by value: a parameter that a forward cut comes from
	group  []graph.ValueID // by parameter: union-find of those that must be divided together

	sliced []sliced
	gather []int64 // by node: bytes of operands that are gathered for it
	table  graph.ValueID
	reader []graph.ValueID // by value: a weight of a column-parallel linear that reads it
}

// sliced counts the readers of a whole value that take a part of it.
type sliced struct {
	readers int
	cut     cut
	mixed   bool // not all take the same part
}

// blocked is why a division that began at a parameter cannot go on.
type blocked struct {
	origin graph.ValueID
	why    string
}

func (b *blocked) Error() string { return b.why }

// root is the representative of the parameters that are divided together with one.
func (d *divider) root(p graph.ValueID) graph.ValueID {
	for d.group[p] != p {
		d.group[p] = d.group[d.group[p]]
		p = d.group[p]
	}
	return p
}

// unite divides two parameters together or not at all.
func (d *divider) unite(p, q graph.ValueID) {
	if p != graph.NoValue && q != graph.NoValue {
		d.group[d.root(p)] = d.root(q)
	}
}

// part is a rank's share of a dim; the last one is padded.
func (d *divider) part(n int64) int64 { return (n + d.ways - 1) / d.ways }
