// Package einsum plans sums of products in Einstein's notation: which matrix products, copies and
// sums compute an equation, for any device.
package einsum

import (
	"fmt"
	"slices"
	"strings"
)

// Equation is an equation in Einstein's notation, for example "bij,bjk->bik": a label per axis of
// every operand and of the result. dots stands for any number of axes that broadcast.
type Equation struct {
	Terms  [][]byte
	Result []byte
}

const dots = '.'

// dotsAxis is the label of the axis that is j places before the last one of an ellipsis.
func dotsAxis(j int) byte { return byte(128 + j) }

// Parse reads an equation. Without an arrow, the result has the ellipsis and then, in
// alphabetical order, the labels that occur once.
func Parse(text string) (eq Equation, err error) {
	left, right, explicit := strings.Cut(strings.ReplaceAll(text, " ", ""), "->")
	var count [256]int
	for _, term := range strings.Split(left, ",") {
		labels, err := parseTerm(term)
		if err != nil {
			return eq, err
		}
		for _, l := range labels {
			count[l]++
		}
		eq.Terms = append(eq.Terms, labels)
	}
	if !explicit {
		for l, n := range count { // '.' comes before all letters
			if n == 1 || n > 0 && l == dots {
				eq.Result = append(eq.Result, byte(l))
			}
		}
		return eq, nil
	}
	if eq.Result, err = parseTerm(right); err != nil {
		return eq, err
	}
	for i, l := range eq.Result {
		if count[l] == 0 && l != dots {
			return eq, fmt.Errorf("the result has the label %c, which no operand has", l)
		}
		if slices.Contains(eq.Result[:i], l) {
			return eq, fmt.Errorf("the result has the label %c twice", l)
		}
	}
	return eq, nil
}

func parseTerm(term string) ([]byte, error) {
	labels := []byte{}
	for i := 0; i < len(term); i++ {
		ch := term[i]
		switch {
		case 'a' <= ch && ch <= 'z', 'A' <= ch && ch <= 'Z':
			labels = append(labels, ch)
		case strings.HasPrefix(term[i:], "..."):
			if slices.Contains(labels, dots) {
				return nil, fmt.Errorf("term %q has two ellipses", term)
			}
			labels = append(labels, dots)
			i += 2
		default:
			return nil, fmt.Errorf("term %q has %q, and terms are letters and ellipses", term, ch)
		}
	}
	return labels, nil
}
