package autograd

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"memopt/graph"
	"memopt/graph/op"
)

// term is a pattern of nodes: what makes a value.
type term struct {
	leaf      leaf
	kind      graph.Kind // of the node, where it is no leaf and has no alternatives
	args      []*term
	symmetric bool    // the two arguments may change places
	reduces   bool    // it is a reduction
	either    []*term // alternatives, tried in turn
	slot      int     // among the names of the pattern; -1: it has none
	number    float64
}

// leaf says what a value may be of which a pattern does not say what makes it.
type leaf uint8

const (
	noLeaf      leaf = iota
	anyValue         // x: any value, everywhere the same
	anyConstant      // eps: any constant of one element
	oneNumber        // 0.5
)

// constantName is the name that stands for any constant of one element.
const constantName = "eps"

// symmetric are the operators of patterns whose two inputs may change places.
var symmetric = map[string]bool{"Add": true, "Mul": true}

// patternReader reads the text of a pattern:
//
//	term    = [name ":"] Operator "(" term {"," term} ")" | "{" term {"|" term} "}" | name | number
//
// A name stands for one value, wherever it occurs. One name stands for the input, and is not followed
// by what makes it. Reductions have their data alone as an argument;
// in a match all of them are over the same axes, which they keep.
type patternReader struct {
	text  string
	names []string
	input int // the name of which the pattern does not say what makes it
}

// readPattern reads a text that is part of the program.
func readPattern(text string) (*term, *patternReader) {
	r := &patternReader{text: strings.Join(strings.Fields(text), "")}
	t := r.term()
	if r.text != "" {
		r.fail("the end")
	}
	return t, r
}

// fail reports a fault of the table, found by the first test that runs.
func (r *patternReader) fail(want string) {
	panic(fmt.Sprintf("autograd: pattern: wanted %s at %q", want, r.text))
}

func (r *patternReader) term() *term {
	if r.takes("{") {
		t := &term{slot: -1, either: []*term{r.term()}}
		for r.takes("|") {
			t.either = append(t.either, r.term())
		}
		r.want("}")
		return t
	}
	word := r.word()
	switch n, err := strconv.ParseFloat(word, 64); {
	case err == nil:
		return &term{slot: -1, leaf: oneNumber, number: n}
	case word == constantName:
		return &term{slot: -1, leaf: anyConstant}
	case unicode.IsUpper(rune(word[0])):
		return r.node(word)
	}
	known := len(r.names)
	slot, t := r.slot(word), &term{leaf: anyValue}
	if r.takes(":") {
		t = r.term()
	} else if slot == known {
		r.input = slot
	}
	t.slot = slot
	return t
}

// node reads the arguments of an operator.
func (r *patternReader) node(name string) *term {
	t := &term{slot: -1, kind: op.Lookup("", name), symmetric: symmetric[name],
		reduces: strings.HasPrefix(name, "Reduce")}
	if t.kind == op.Unknown {
		r.fail("an operator, not " + name)
	}
	r.want("(")
	for t.args = append(t.args, r.term()); r.takes(","); {
		t.args = append(t.args, r.term())
	}
	r.want(")")
	return t
}

// slot is the number of a name.
func (r *patternReader) slot(name string) int {
	for i, n := range r.names {
		if n == name {
			return i
		}
	}
	r.names = append(r.names, name)
	return len(r.names) - 1
}

func (r *patternReader) word() string {
	n := strings.IndexAny(r.text, "():,{|}")
	if n < 0 {
		n = len(r.text)
	}
	if n == 0 {
		r.fail("a name or a number")
	}
	word := r.text[:n]
	r.text = r.text[n:]
	return word
}

func (r *patternReader) takes(sign string) bool {
	rest, ok := strings.CutPrefix(r.text, sign)
	r.text = rest
	return ok
}

func (r *patternReader) want(sign string) {
	if !r.takes(sign) {
		r.fail(sign)
	}
}
