package chunk

import (
	"cmp"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// place is the position of a value along a cut of so many rows.
type place struct {
	dim   int   // -1: every part takes the whole value
	inner int64 // places of the dim for one row
	// merge is set if the dims before count as one with this one: rows are runs of elements.
	merge bool
}

var whole = place{dim: -1}

func (p place) cut() bool { return p.dim >= 0 }

// along is how the work of a node falls into the parts of a cut.
type along struct {
	in, out []place
	once    []int // inputs that one part alone may have
	// how whole outputs are reduced from the parts' outputs; NoReduction if there are no whole
	// outputs.
	reduce op.Reduction
	// Parts that begin at rows that are multiples of grain give the bits of the whole; 0 means that
	// they need not.
	grain int64
}

// link is a factor of a node in the chain of those that make up a cut.
type link struct {
	f    *op.Factor
	used int64 // how many of its places are rows of their own; the others lie inside a row
}

// rest is the number of places inside a row.
func (l link) rest() int64 { return l.f.Size / l.used }

// before returns how many elements' runs lie before a place in a value: the product of the sizes of
// everything outside of it.
func before(dims []int64, p op.Place) int64 { return product(dims[:p.Dim]) * p.Outer }

func product(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// operand is an operand of a node among its factors.
type operand struct {
	slot int
	out  bool
}

func (o operand) of(f *op.Factor) op.Place {
	if o.out {
		return f.Out[o.slot]
	}
	return f.In[o.slot]
}

// chain returns the factors of a node that an operand is cut along, from the outermost on; nil if
// its factors do not cover the operand's place.
func chain(factors []op.Factor, o operand, dims []int64, p place, rows int64) []link {
	if p.merge || product(dims[:p.dim]) == 1 {
		return leading(factors, o, dims, rows)
	}
	for i := range factors {
		f := &factors[i]
		at := o.of(f)
		if at.Dim == p.dim && at.Outer == 1 && f.Size%rows == 0 && f.Size/rows*at.Inner == p.inner {
			return []link{{f, rows}}
		}
	}
	return nil
}

// leading returns the factors that together are the first rows of an operand's elements.
func leading(factors []op.Factor, o operand, dims []int64, rows int64) (list []link) {
	byPlace := make([]*op.Factor, 0, len(factors))
	for i := range factors {
		if o.of(&factors[i]).Cut() {
			byPlace = append(byPlace, &factors[i])
		}
	}
	slices.SortFunc(byPlace, func(a, b *op.Factor) int {
		return cmp.Compare(before(dims, o.of(a)), before(dims, o.of(b)))
	})
	at := int64(1)
	for _, f := range byPlace {
		if at == rows {
			break
		}
		if before(dims, o.of(f)) != at {
			return nil
		}
		used := min(f.Size, rows/at)
		if rows%(at*used) != 0 || f.Size%used != 0 || used < f.Size && at*used != rows {
			return nil
		}
		list = append(list, link{f, used})
		at *= used
	}
	if at != rows {
		return nil
	}
	return list
}

// alongChain divides a node along a chain; nil if an operand lies along some of it alone, or in
// pieces.
func alongChain(n *graph.Node, list []link, dims func(graph.ValueID) []int64) *along {
	a := &along{grain: grain(list), reduce: list[0].f.Reduce}
	for slot, v := range n.Inputs {
		p, ok := placeOf(list, operand{slot: slot}, dims, v)
		if !ok {
			return nil
		}
		a.in = append(a.in, p)
	}
	for slot, v := range n.Outputs {
		p, ok := placeOf(list, operand{slot, true}, dims, v)
		if !ok {
			return nil
		}
		a.out = append(a.out, p)
	}
	for _, l := range list {
		if l.f.Reduce != a.reduce {
			return nil
		}
		for _, slot := range l.f.Once {
			if !slices.Contains(a.once, slot) {
				a.once = append(a.once, slot)
			}
		}
	}
	return a
}

// placeOf returns where an operand lies along a chain.
func placeOf(list []link, o operand, dims func(graph.ValueID) []int64, v graph.ValueID) (p place, ok bool) {
	if v == graph.NoValue {
		return whole, true
	}
	cuts := 0
	for _, l := range list {
		if o.of(l.f).Cut() {
			cuts++
		}
	}
	if cuts == 0 {
		return whole, true
	}
	d := dims(v)
	if cuts != len(list) || d == nil {
		return p, false
	}
	last := list[len(list)-1]
	at := o.of(last.f)
	p = place{dim: at.Dim, inner: at.Inner * last.rest()}
	if len(list) == 1 {
		return p, at.Outer == 1
	}
	outer := int64(1)
	for _, l := range list {
		if before(d, o.of(l.f)) != outer {
			return p, false
		}
		outer *= l.used
	}
	p.merge = product(d[:p.dim]) > 1
	return p, true
}

// grain is the grain of a chain in rows.
func grain(list []link) int64 {
	last := list[len(list)-1]
	g := last.f.Grain
	if len(list) > 1 {
		g = last.f.Joint
	}
	if g == 0 {
		return 0
	}
	return g / symbolic.GCD(g, last.rest())
}
