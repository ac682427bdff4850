package graphtest

import (
	"math"

	"memopt/graph"
)

// cutAt is the row that divides activations in two.
const cutAt = 4

// slice takes the rows from one to another of an activation.
func (b *maker) slice(x graph.ValueID, from, to int64) graph.ValueID {
	one := []int64{1}
	return b.one("", "Slice", nil, x, b.constant(one, from), b.constant(one, to), b.constant(one, 0))
}

// halves cuts an activation in two: by Slice, or by Split where that makes equal parts.
func (b *maker) halves(x graph.ValueID) [2]graph.ValueID {
	if n, ok := b.batch.Const(); ok && n%2 == 0 && n > 2*cutAt && b.rng.IntN(2) == 0 {
		out := b.add("", "Split", 2, []graph.Attr{num("axis", 0)}, x, b.constant([]int64{2}, cutAt, n-cutAt))
		return [2]graph.ValueID(out)
	}
	return [2]graph.ValueID{b.slice(x, 0, cutAt), b.slice(x, cutAt, math.MaxInt64)}
}

// whole puts two parts together, sometimes under another shape.
func (b *maker) whole(parts [2]graph.ValueID) graph.ValueID {
	if b.width%8 != 0 || b.rng.IntN(2) == 0 {
		return b.one("", "Concat", []graph.Attr{num("axis", 0)}, parts[:]...)
	}
	for i, x := range parts {
		parts[i] = b.one("", "Reshape", []graph.Attr{num("allowzero", 1)}, x,
			b.one("", "Concat", []graph.Attr{num("axis", 0)}, b.slice(b.one("", "Shape", nil, x), 0, 1),
				b.constant([]int64{2}, b.width/8, 8)))
	}
	joined := b.one("", "Concat", []graph.Attr{num("axis", -3)}, parts[:]...)
	return b.one("", "Reshape", nil, joined, b.constant([]int64{2}, -1, b.width))
}

// parts computes on the first rows and on the others apart, in both halves.
func (b *maker) parts() {
	x := b.cur
	cut := b.halves(x)
	made := cut
	for i, v := range cut {
		if b.rng.IntN(2) == 0 {
			v = b.one("", "Relu", nil, v)
		}
		if made[i] = v; b.rng.IntN(2) == 0 {
			made[i] = b.one("com.microsoft", "Gelu", nil, v)
		}
	}
	b.push(b.whole(made), func(g graph.ValueID) graph.ValueID {
		grads := b.halves(g)
		for i, d := range grads {
			grads[i] = b.one("com.microsoft", "GeluGrad", nil, d, cut[i])
			if b.rng.IntN(3) == 0 {
				grads[i] = b.one("", "Mul", nil, d, made[i])
			}
		}
		return b.whole(grads)
	})
}
