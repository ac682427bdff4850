package op

import (
	"slices"
	"strings"

	"memopt/graph"
	"memopt/symbolic"
)

// einsum is an equation in Einstein's notation: for every operand and for the
// result a label per axis; ellipsis stands for any number of axes that broadcast.
type einsum struct {
	terms  [][]rune
	result []rune
}

const ellipsis = '.'

// einsumRule gives each label the dim that the operands have for it.
func einsumRule(c *Ctx) {
	eq, ok := c.equation()
	if !ok {
		return
	}
	slots := make([]int, len(c.Node.Inputs))
	for i := range slots {
		slots[i] = i
	}
	dtype := c.sameTypes(slots...)
	c.want(0, numbers)
	dims, broad, known := c.labelDims(eq)
	if c.Failed() {
		return
	}
	if !known {
		c.OutTensor(0, dtype, graph.Shape{})
		return
	}
	out := []symbolic.Expr{}
	for _, label := range eq.result {
		if label == ellipsis {
			out = append(out, broad.Dims...)
		} else {
			out = append(out, dims[label])
		}
	}
	c.OutTensor(0, dtype, graph.Dims(out...))
}

// equation parses and checks the attribute.
func (c *Ctx) equation() (einsum, bool) {
	text := c.Str("equation", "")
	eq, fault := parseEinsum(text)
	switch {
	case c.Failed():
	case fault != "":
		c.Errorf("equation %q: %s", text, fault)
	case len(eq.terms) != len(c.Node.Inputs):
		c.Errorf("equation %q has %d operands and the node %d inputs", text, len(eq.terms), len(c.Node.Inputs))
	}
	return eq, !c.Failed()
}

// parseEinsum reads an equation; fault describes the error in it.
func parseEinsum(text string) (eq einsum, fault string) {
	text = strings.ReplaceAll(text, " ", "")
	left, right, explicit := strings.Cut(text, "->")
	count := map[rune]int{}
	for _, term := range strings.Split(left, ",") {
		labels, fault := parseTerm(term)
		if fault != "" {
			return eq, fault
		}
		for _, l := range labels {
			count[l]++
		}
		eq.terms = append(eq.terms, labels)
	}
	if !explicit {
		eq.result = implicitResult(count)
		return eq, ""
	}
	if eq.result, fault = parseTerm(right); fault != "" {
		return eq, fault
	}
	for i, l := range eq.result {
		if count[l] == 0 && l != ellipsis {
			return eq, "the result has the label " + string(l) + ", which no operand has"
		}
		if slices.Contains(eq.result[:i], l) {
			return eq, "the result has the label " + string(l) + " twice"
		}
	}
	return eq, ""
}

// implicitResult is the result of an equation without an arrow: the ellipsis, then in
// alphabetical order the labels that occur once.
func implicitResult(count map[rune]int) []rune {
	var out []rune
	for l, n := range count {
		if n == 1 || l == ellipsis {
			out = append(out, l)
		}
	}
	slices.Sort(out) // '.' sorts before all letters
	return out
}

func parseTerm(term string) (labels []rune, fault string) {
	for i := 0; i < len(term); i++ {
		ch := term[i]
		switch {
		case 'a' <= ch && ch <= 'z', 'A' <= ch && ch <= 'Z':
			labels = append(labels, rune(ch))
		case strings.HasPrefix(term[i:], "..."):
			if slices.Contains(labels, ellipsis) {
				return nil, "an operand has two ellipses"
			}
			labels = append(labels, ellipsis)
			i += 2
		default:
			return nil, "it has " + string(rune(ch)) + "; operands are letters and ..."
		}
	}
	return labels, ""
}

// labelDims returns the dim of each label and the shape of the ellipsis; known is
// false where the rank of an operand is not known.
func (c *Ctx) labelDims(eq einsum) (dims map[rune]symbolic.Expr, broad graph.Shape, known bool) {
	dims, broad, known = map[rune]symbolic.Expr{}, graph.Dims(), true
	for i, labels := range eq.terms {
		s := c.Shape(i)
		if !s.Ranked {
			known = false
			continue
		}
		rest, ok := c.matchTerm(i, labels, s, dims)
		if !ok {
			return dims, broad, false
		}
		broad = c.BroadcastShapes(broad, rest)
	}
	return dims, broad, known
}

// matchTerm enters the dims of one operand; rest holds the dims of its ellipsis.
func (c *Ctx) matchTerm(i int, labels []rune, s graph.Shape, dims map[rune]symbolic.Expr) (rest graph.Shape, ok bool) {
	covered := len(s.Dims) - len(labels)
	if slices.Contains(labels, ellipsis) {
		covered++
	}
	if covered < 0 || covered > 0 && !slices.Contains(labels, ellipsis) {
		c.Errorf("input %d has shape %v, and its term in the equation %d labels", i, s, len(labels))
		return rest, false
	}
	rest, at := graph.Dims(), 0
	for _, l := range labels {
		if l == ellipsis {
			rest = graph.Dims(s.Dims[at : at+covered]...)
			at += covered
			continue
		}
		d := s.Dims[at]
		at++
		if old, seen := dims[l]; seen {
			if d, ok = c.inf.broadcastDim(old, d); !ok {
				c.Errorf("input %d has shape %v: label %c is %v here and %v before", i, s, l, s.Dims[at-1], old)
				return rest, false
			}
		}
		dims[l] = d
	}
	return rest, true
}

// einsumFLOPs counts, for every combination of labels, one operation per operand:
// the products and the addition, as a direct evaluation does them.
func einsumFLOPs(c *Ctx) symbolic.Expr {
	eq, ok := c.equation()
	if !ok {
		return symbolic.Unknown()
	}
	dims, broad, known := c.labelDims(eq)
	if !known {
		return symbolic.Unknown()
	}
	n := product(broad.Dims).Mul(symbolic.Const(int64(len(eq.terms))))
	seen := map[rune]bool{ellipsis: true}
	for _, labels := range eq.terms {
		for _, l := range labels {
			if !seen[l] {
				seen[l] = true
				n = n.Mul(dims[l])
			}
		}
	}
	return n
}
