package precision

import (
	"memopt/graph/op"
	"memopt/internal/maxflow"
)

// choice is the question which units, groups of nodes that compute in one width, compute in 16 bits.
type choice struct {
	units  []op.Widths
	values []traffic
}

// traffic is a float value between units.
type traffic struct {
	maker    int   // its unit; none for a value that is no node's of a unit, such as a weight
	low      bool  // of such a value: it has 16 bits; else it is float32
	readers  []int // units
	outside  bool  // a reader outside of all units needs float32
	elements int64
}

// none is the maker of a value that no unit makes.
const none = -1

// bytes are those of a value: in the width that its maker gives it, and in the other one where a reader needs that.
func (t *traffic) bytes(half []bool) int64 {
	wide, low := t.wanted(half)
	n := int64(0)
	if wide && (t.maker != none || t.low) {
		n += 4
	}
	if low && !t.low {
		n += 2
	}
	return n * t.elements
}

// wanted reports whether a value is there in float32, and in 16 bits.
func (t *traffic) wanted(half []bool) (wide, low bool) {
	low = t.made(half)
	wide = !low || t.outside
	for _, r := range t.readers {
		wide, low = wide || !half[r], low || half[r]
	}
	return wide, low
}

// made reports whether a value has 16 bits before any cast.
func (t *traffic) made(half []bool) bool {
	return t.low || t.maker != none && half[t.maker]
}

// cost is the bytes of all values. Values that no unit makes cost only their copies.
func (c *choice) cost(half []bool) (n int64) {
	for i := range c.values {
		n += c.values[i].bytes(half)
	}
	return n
}

// allowed reports whether all units compute in a width that they may have.
func (c *choice) allowed(half []bool) bool {
	for u, w := range c.units {
		if half[u] && w == op.Wide || !half[u] && w == op.Narrow {
			return false
		}
	}
	return true
}

// solve finds the units that compute in 16 bits in the choice of the fewest bytes, and among these the one with the
// fewest units in 16 bits. A minimum cut has the units in 16 bits on the side of the source:
//
//	source → u    the bytes of u's outputs in float32
//	u → sink      their bytes in 16 bits
//	u → up        the copy in float32 of an output; up → r without end for each reader
//	low → u       the copy in 16 bits of an output; r → low without end for each reader
//	source → up   the copy in float32 of a value of 16 bits that no unit makes
//	low → sink    the copy in 16 bits of one of float32
func (c *choice) solve() []bool {
	n := len(c.units)
	source, sink := n, n+1
	net := maxflow.New(n + 2 + 2*len(c.values))
	for u, w := range c.units {
		switch w {
		case op.Narrow:
			net.Arc(source, u, maxflow.Endless)
		case op.Wide:
			net.Arc(u, sink, maxflow.Endless)
		}
	}
	for i := range c.values {
		v := &c.values[i]
		up, low := n+2+2*i, n+3+2*i
		switch {
		case v.maker != none:
			net.Arc(source, v.maker, 4*v.elements)
			net.Arc(v.maker, sink, 2*v.elements)
			net.Arc(v.maker, up, 4*v.elements)
			net.Arc(low, v.maker, 2*v.elements)
		case v.low:
			net.Arc(source, up, 4*v.elements)
		default:
			net.Arc(low, sink, 2*v.elements)
		}
		if v.outside {
			net.Arc(up, sink, maxflow.Endless)
		}
		for _, r := range v.readers {
			net.Arc(up, r, maxflow.Endless)
			net.Arc(r, low, maxflow.Endless)
		}
	}
	net.Maximum(source, sink)
	return net.Side(source)[:n]
}
