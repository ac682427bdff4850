package autograd

import (
	"slices"
	"strings"
)

// equation is an equation in Einstein's notation, with a letter per axis.
type equation struct {
	terms  [][]byte
	result []byte
}

// ellipsisLabel stands for an ellipsis until it is replaced by letters.
const ellipsisLabel = '.'

// einsumRule: the gradient of an operand is the Einsum of dY and the other operands with that
// operand's labels as the result. Labels that all of these lack were summed over the operand alone:
// along them the gradient is repeated. Stashes the other operands. An ellipsis is written out as
// letters.
func einsumRule(c *Ctx) {
	eq := c.readEquation()
	for i, term := range eq.terms {
		if !c.Wants(i) {
			continue
		}
		for k, l := range term {
			if slices.Contains(term[:k], l) {
				c.Unsupported("input %d has the label %c twice", i, l)
			}
		}
		c.Set(i, c.einsumGradient(eq, i))
	}
}

// einsumGradient is the gradient of operand i.
func (c *Ctx) einsumGradient(eq equation, i int) Value {
	x := c.In(i)
	terms, in := [][]byte{eq.result}, []Value{c.Grad(0)}
	for k, term := range eq.terms {
		if k != i {
			terms, in = append(terms, term), append(in, c.In(k))
		}
	}
	var have []byte
	var lacking []int64
	for axis, l := range eq.terms[i] {
		if slices.ContainsFunc(terms, func(t []byte) bool { return slices.Contains(t, l) }) {
			have = append(have, l)
		} else {
			lacking = append(lacking, int64(axis))
		}
	}
	g := in[0]
	if len(in) > 1 || string(terms[0]) != string(have) {
		g = c.Op("Einsum", Attrs{A("equation", string(slices.Concat(joinTerms(terms), []byte("->"), have)))}, in...)
	}
	g = c.Unsqueeze(g, lacking...)
	if len(lacking) > 0 || c.narrower(g, x) {
		g = c.Op("Expand", nil, g, c.ShapeOf(x))
	}
	return c.SumTo(g, x)
}

// joinTerms writes terms with commas.
func joinTerms(terms [][]byte) []byte {
	var list []string
	for _, t := range terms {
		list = append(list, string(t))
	}
	return []byte(strings.Join(list, ","))
}

// narrower reports whether g has a dim of 1 where x has another length: the operands broadcast one
// label.
func (c *Ctx) narrower(g, x Value) bool {
	have := c.Ranked(g, 0)
	want := c.Ranked(x, len(have))
	for i, d := range have {
		if d.IsConst(1) && !want[i].IsConst(1) {
			return true
		}
	}
	return false
}

// readEquation reads the attribute; the operator's shape rule has checked it.
func (c *Ctx) readEquation() equation {
	text := strings.ReplaceAll(strings.ReplaceAll(c.Node.Str("equation", ""), " ", ""), "...", string(ellipsisLabel))
	left, right, explicit := strings.Cut(text, "->")
	eq := equation{result: []byte(right)}
	var count [256]int
	for _, term := range strings.Split(left, ",") {
		eq.terms = append(eq.terms, []byte(term))
		for _, l := range []byte(term) {
			count[l]++
		}
	}
	if !explicit {
		for l, n := range count { // the ellipsis comes before all letters
			if n == 1 || n > 0 && l == ellipsisLabel {
				eq.result = append(eq.result, byte(l))
			}
		}
	}
	if count[ellipsisLabel] > 0 {
		c.spellEllipsis(&eq, count)
	}
	return eq
}

// spellEllipsis replaces ellipses by letters that the equation does not have: the same for the same
// place, counted from the end, so that they broadcast.
func (c *Ctx) spellEllipsis(eq *equation, count [256]int) {
	var free []byte
	for _, l := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		if count[l] == 0 {
			free = append(free, l)
		}
	}
	covered := func(labels []byte, v Value) int {
		if !slices.Contains(labels, ellipsisLabel) {
			return 0
		}
		return c.Rank(v) - len(labels) + 1
	}
	most := 0
	for i, term := range eq.terms {
		most = max(most, covered(term, c.In(i)))
	}
	if most > len(free) {
		c.Unsupported("too few letters for an ellipsis of %d axes", most)
	}
	spell := func(labels []byte, n int) []byte {
		at := slices.Index(labels, ellipsisLabel)
		if at < 0 {
			return labels
		}
		return slices.Concat(labels[:at], free[most-n:most], labels[at+1:])
	}
	for i, term := range eq.terms {
		eq.terms[i] = spell(term, covered(term, c.In(i)))
	}
	eq.result = spell(eq.result, most)
}
