package pattern

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"memopt/graph"
	"memopt/graph/op"
)

// Pattern describes nodes that together compute the output of the last one, such as Div(x,
// Sqrt(y)), for example.
type Pattern struct {
	Names []string // of the values that it names, as Match.Values has them
	Input int      // the index of the input's name: the last one without a producer in the pattern
	root  *term
}

// term is a pattern of nodes: the producers of a value.
type term struct {
	leaf      leaf
	kind      graph.Kind // of the node, where it is no leaf and has no alternatives
	args      []*term
	symmetric bool    // the two arguments may change places
	reduces   bool    // it is a reduction
	either    []*term // alternatives, tried in turn
	slot      int     // among the names of the pattern; -1 if it has no name
	number    float64
}

// leaf is the kind of a value without a producer in the pattern.
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

// reader reads the text of a pattern.
type reader struct {
	text string
	p    Pattern
}

// Parse reads a pattern, which is a part of the program: a malformed text is a fault of the
// program, and Parse panics.
//
//	term    = [name ":"] Operator "(" term {"," term} ")" | "{" term {"|" term} "}" | name | number
//
// A name stands for one value, wherever it occurs; eps stands for a constant of one element. One
// name, the input, has no producer in the pattern. Reductions have their data alone as an argument.
func Parse(text string) *Pattern {
	r := &reader{text: strings.Join(strings.Fields(text), "")}
	r.p.root = r.term()
	if r.text != "" {
		r.fail("the end")
	}
	return &r.p
}

// Last is the kind of the last node.
func (p *Pattern) Last() graph.Kind { return p.root.kind }

// fail reports a fault of a table, found by the first test that runs.
func (r *reader) fail(want string) {
	panic(fmt.Sprintf("pattern: wanted %s at %q", want, r.text))
}

func (r *reader) term() *term {
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
		return &term{slot: r.slot(word), leaf: anyConstant}
	case unicode.IsUpper(rune(word[0])):
		return r.node(word)
	}
	known := len(r.p.Names)
	slot, t := r.slot(word), &term{leaf: anyValue}
	if r.takes(":") {
		t = r.term()
	} else if slot == known {
		r.p.Input = slot
	}
	t.slot = slot
	return t
}

// node reads the arguments of an operator.
func (r *reader) node(name string) *term {
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
func (r *reader) slot(name string) int {
	if i := slices.Index(r.p.Names, name); i >= 0 {
		return i
	}
	r.p.Names = append(r.p.Names, name)
	return len(r.p.Names) - 1
}

func (r *reader) word() string {
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

func (r *reader) takes(sign string) bool {
	rest, ok := strings.CutPrefix(r.text, sign)
	r.text = rest
	return ok
}

func (r *reader) want(sign string) {
	if !r.takes(sign) {
		r.fail(sign)
	}
}
