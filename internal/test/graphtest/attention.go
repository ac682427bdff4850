package graphtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Attention draws a forward model of one to three blocks of attention, in ONNX's textual syntax, with
// a loss and weights as initializers. All shapes are numbers, so that runtimes fuse whatever they
// can. Heads are split and joined, scores scaled and masked, positions encoded and keys shared as
// exporters of several frameworks write it: each block draws anew.
func Attention(rng *rand.Rand) string {
	a := &attention{rng: rng, batch: 1 + rng.IntN(3), length: 2 + rng.IntN(9), head: 2 * (1 + rng.IntN(4)),
		groups: 1 + rng.IntN(2)}
	a.heads = a.groups * (1 + rng.IntN(3))
	a.width, a.other = a.heads*a.head, a.length+rng.IntN(4)
	x := "x"
	for range 1 + rng.IntN(3) {
		x = a.block(x)
	}
	inputs := fmt.Sprintf("float[%d, %d, %d] x", a.batch, a.length, a.width)
	if a.crosses {
		inputs += fmt.Sprintf(", float[%d, %d, %d] memory", a.batch, a.other, a.width)
	}
	a.do("loss = ReduceMean<keepdims = 0>(%s)", a.make("Mul(%s, %s)", x, x))
	return fmt.Sprintf("attention (%s) => (float loss)\n<%s>\n{\n%s}\n", inputs, strings.Join(a.constants, ",\n "),
		strings.Join(a.lines, ""))
}

// attention writes a model.
type attention struct {
	rng              *rand.Rand
	batch, length    int // of the queries
	other            int // the length of the sequence that cross-attention reads
	heads, groups    int // groups: heads of keys and values
	head, width      int // of one head, of all of them
	crosses          bool
	lines, constants []string
	values           int
}

// do writes a line.
func (a *attention) do(format string, args ...any) {
	a.lines = append(a.lines, "  "+fmt.Sprintf(format, args...)+"\n")
}

// make writes a node and returns its output.
func (a *attention) make(format string, args ...any) string {
	a.values++
	name := fmt.Sprintf("v%d", a.values)
	a.do(name+" = "+format, args...)
	return name
}

// either draws one of several.
func either[T any](a *attention, of ...T) T { return of[a.rng.IntN(len(of))] }

// constant adds a constant of int64 numbers.
func (a *attention) ints(numbers ...int) string {
	a.values++
	name := fmt.Sprintf("i%d", a.values)
	a.constants = append(a.constants, fmt.Sprintf("int64[%d] %s = {%s}", len(numbers), name, joined(numbers)))
	return name
}

func joined(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}

// number adds a scalar.
func (a *attention) number(x float64) string {
	a.values++
	name := fmt.Sprintf("c%d", a.values)
	a.constants = append(a.constants, fmt.Sprintf("float %s = {%g}", name, x))
	return name
}

// weight adds a weight of given dims.
func (a *attention) weight(dims ...int) string {
	a.values++
	name, n := fmt.Sprintf("w%d", a.values), 1
	for _, d := range dims {
		n *= d
	}
	data := make([]string, n)
	for i := range data {
		data[i] = fmt.Sprintf("%.4f", a.rng.NormFloat64()/math.Sqrt(float64(dims[0])))
	}
	a.constants = append(a.constants, fmt.Sprintf("float[%s] %s = {%s}", joined(dims), name, strings.Join(data, ", ")))
	return name
}

// product multiplies rows of a width by a weight.
func (a *attention) product(x string, from, to int) string {
	return a.make("MatMul(%s, %s)", x, a.weight(from, to))
}

// linear multiplies rows of a width by a weight, with a bias or without.
func (a *attention) linear(x string, from, to int) string {
	y := a.product(x, from, to)
	switch a.rng.IntN(3) {
	case 0:
		return y
	case 1:
		return a.make("Add(%s, %s)", a.weight(to), y)
	}
	return a.make("Add(%s, %s)", y, a.weight(to))
}

// block is attention and the MLP behind it, each beside a path that leads past it.
func (a *attention) block(x string) string {
	y := a.attend(a.norm(x))
	x = a.make("Add(%s, %s)", x, a.linear(y, a.width, a.width))
	if a.rng.IntN(3) == 0 {
		return x
	}
	inner := a.width + 2*a.rng.IntN(8)
	n := a.norm(x)
	h := a.linear(n, a.width, inner)
	switch a.rng.IntN(4) {
	case 0:
		h = a.make("Relu(%s)", h)
	case 1:
		e := a.make("Erf(%s)", a.make("Div(%s, %s)", h, a.number(1.4142135381698608)))
		h = a.make("Mul(%s, %s)", a.make("Mul(%s, %s)", h, a.make("Add(%s, %s)", e, a.number(1))), a.number(0.5))
	case 2:
		gate := a.make("Mul(%s, %s)", h, a.make("Sigmoid(%s)", h))
		h = a.make("Mul(%s, %s)", gate, a.linear(n, a.width, inner))
	case 3:
		h = a.make("Tanh(%s)", h)
	}
	return a.make("Add(%s, %s)", x, a.linear(h, inner, a.width))
}

// norm normalizes rows.
func (a *attention) norm(x string) string {
	mean := func(v string) string { return a.make("ReduceMean<axes = [-1]>(%s)", v) }
	root := func(v string) string {
		return a.make("Sqrt(%s)", a.make("Add(%s, %s)", mean(a.make("Mul(%s, %s)", v, v)), a.number(1e-5)))
	}
	switch a.rng.IntN(4) {
	case 0:
		return x
	case 1:
		return a.make("LayerNormalization(%s, %s, %s)", x, a.weight(a.width), a.weight(a.width))
	case 2:
		return a.make("Mul(%s, %s)", a.make("Div(%s, %s)", x, root(x)), a.weight(a.width))
	}
	d := a.make("Sub(%s, %s)", x, mean(x))
	return a.make("Add(%s, %s)", a.make("Mul(%s, %s)", a.make("Div(%s, %s)", d, root(d)), a.weight(a.width)),
		a.weight(a.width))
}

// attend is attention of x to itself or to a memory, up to where the heads are joined.
func (a *attention) attend(x string) string {
	from, length := x, a.length
	if a.rng.IntN(4) == 0 {
		from, length, a.crosses = "memory", a.other, true
	}
	groups := either(a, a.groups, a.heads)
	q, k, v := a.project(x, from, length, groups)
	if a.rng.IntN(2) == 0 {
		q, k = a.rotate(q, a.heads, a.length), a.rotate(k, groups, length)
	}
	k, v = a.shared(k, groups, length), a.shared(v, groups, length)
	if a.rng.IntN(5) == 0 {
		return a.joined(a.inEinstein(q, k, v, length))
	}
	if a.rng.IntN(4) == 0 { // heads and samples in one dim
		flat := func(t string, length int) string {
			return a.make("Reshape(%s, %s)", t, a.ints(a.batch*a.heads, length, a.head))
		}
		t := a.make("Transpose<perm = [0, 2, 1]>(%s)", flat(k, length))
		p := a.softmax(a.make("MatMul(%s, %s)", flat(q, a.length), t), length, a.batch*a.heads)
		c := a.make("MatMul(%s, %s)", p, flat(v, length))
		return a.joined(a.make("Reshape(%s, %s)", c, a.ints(a.batch, a.heads, a.length, a.head)))
	}
	t := a.make("Transpose<perm = [0, 1, 3, 2]>(%s)", k)
	p := a.softmax(a.make("MatMul(%s, %s)", q, t), length, a.batch, a.heads)
	return a.joined(a.make("MatMul(%s, %s)", p, v))
}

// project makes queries, keys and values, with the heads in dim 1. Keys have no bias of their own:
// its gradient would be zero but for rounding.
func (a *attention) project(x, from string, length, groups int) (q, k, v string) {
	if from != x || groups != a.heads || a.rng.IntN(2) == 0 {
		return a.split(a.linear(x, a.width, a.width), a.heads, a.length),
			a.split(a.product(from, a.width, groups*a.head), groups, length),
			a.split(a.linear(from, a.width, groups*a.head), groups, length)
	}
	all := a.linear(x, a.width, 3*a.width)
	if a.rng.IntN(2) == 0 { // one product, cut into three
		a.values++
		q, k, v = fmt.Sprintf("q%d", a.values), fmt.Sprintf("k%d", a.values), fmt.Sprintf("s%d", a.values)
		a.do("%s, %s, %s = Split<axis = -1>(%s, %s)", q, k, v, all, a.ints(a.width, a.width, a.width))
		return a.split(q, a.heads, length), a.split(k, a.heads, length), a.split(v, a.heads, length)
	}
	five := a.make("Reshape(%s, %s)", all, a.ints(a.batch, length, 3, a.heads, a.head))
	five = a.make("Transpose<perm = [2, 0, 3, 1, 4]>(%s)", five)
	part := func(i int) string {
		s := a.make("Slice(%s, %s, %s, %s)", five, a.ints(i), a.ints(i+1), a.ints(0))
		return a.make("Squeeze(%s, %s)", s, a.ints(0))
	}
	return part(0), part(1), part(2)
}

// split cuts rows into heads.
func (a *attention) split(x string, heads, length int) string {
	dims := either(a, []int{a.batch, length, heads, a.head}, []int{0, 0, heads, a.head},
		[]int{a.batch, -1, heads, a.head}, []int{0, 0, -1, a.head})
	return a.make("Transpose<perm = [0, 2, 1, 3]>(%s)", a.make("Reshape(%s, %s)", x, a.ints(dims...)))
}

// joined puts the heads beside each other again.
func (a *attention) joined(c string) string {
	dims := either(a, []int{a.batch, a.length, a.width}, []int{0, 0, -1}, []int{a.batch, -1, a.width})
	return a.make("Reshape(%s, %s)", a.make("Transpose<perm = [0, 2, 1, 3]>(%s)", c), a.ints(dims...))
}

// shared gives each head the keys or values of its group.
func (a *attention) shared(k string, groups, length int) string {
	if groups == a.heads {
		return k
	}
	each := a.heads / groups
	wide := a.make("Unsqueeze(%s, %s)", k, a.ints(2))
	wide = a.make("Expand(%s, %s)", wide, a.ints(a.batch, groups, each, length, a.head))
	return a.make("Reshape(%s, %s)", wide, a.ints(a.batch, a.heads, length, a.head))
}

// rotate encodes positions: pairs are turned by an angle that grows with the position.
func (a *attention) rotate(x string, heads, length int) string {
	half := a.head / 2
	if a.rng.IntN(2) == 0 { // the pairs are halves
		part := func(from, to int) string {
			return a.make("Slice(%s, %s, %s, %s)", x, a.ints(from), a.ints(to), a.ints(3))
		}
		turned := a.make("Concat<axis = -1>(%s, %s)", a.make("Neg(%s)", part(half, a.head)), part(0, half))
		cos, sin := a.weight(length, a.head), a.weight(length, a.head)
		return a.make("Add(%s, %s)", a.make("Mul(%s, %s)", x, cos), a.make("Mul(%s, %s)", turned, sin))
	}
	pairs := a.make("Reshape(%s, %s)", x, a.ints(a.batch, heads, length, half, 2))
	one := func(i int) string {
		s := a.make("Slice(%s, %s, %s, %s)", pairs, a.ints(i), a.ints(i+1), a.ints(4))
		return a.make("Squeeze(%s, %s)", s, a.ints(4))
	}
	first, second := one(0), one(1)
	cos, sin := a.weight(length, half), a.weight(length, half)
	turned := []string{
		a.make("Sub(%s, %s)", a.make("Mul(%s, %s)", first, cos), a.make("Mul(%s, %s)", second, sin)),
		a.make("Add(%s, %s)", a.make("Mul(%s, %s)", first, sin), a.make("Mul(%s, %s)", second, cos)),
	}
	for i, t := range turned {
		turned[i] = a.make("Unsqueeze(%s, %s)", t, a.ints(4))
	}
	back := a.make("Concat<axis = 4>(%s, %s)", turned[0], turned[1])
	return a.make("Reshape(%s, %s)", back, a.ints(a.batch, heads, length, a.head))
}

// softmax scales, masks and normalizes scores. before are the dims before the last two.
func (a *attention) softmax(s string, length int, before ...int) string {
	scale := 1 / float64(a.head)
	switch a.rng.IntN(3) {
	case 0:
		s = a.make("Mul(%s, %s)", s, a.number(scale))
	case 1:
		s = a.make("Div(%s, %s)", s, a.number(1/scale))
	}
	switch a.rng.IntN(4) {
	case 0: // later positions are masked
		a.values++
		mask := fmt.Sprintf("m%d", a.values)
		var seen []string
		for i := range a.length {
			for j := range length {
				seen = append(seen, fmt.Sprint(boolOf(j <= i)))
			}
		}
		a.constants = append(a.constants, fmt.Sprintf("bool[%d, %d] %s = {%s}", a.length, length, mask,
			strings.Join(seen, ", ")))
		s = a.make("Where(%s, %s, %s)", mask, s, a.number(-10000))
	case 1: // the same, added
		ahead := make([]int, a.length*length)
		for i := range ahead {
			ahead[i] = -10000 * boolOf(i%length > i/length)
		}
		a.values++
		mask := fmt.Sprintf("m%d", a.values)
		a.constants = append(a.constants, fmt.Sprintf("float[1, %d, %d] %s = {%s}", a.length, length, mask,
			joined(ahead)))
		s = a.make("Add(%s, %s)", s, mask)
	case 2: // a bias for each place, learned
		s = a.make("Add(%s, %s)", s, a.weight(append(before[len(before)-1:], a.length, length)...))
	}
	if a.rng.IntN(3) > 0 {
		return a.make("Softmax<axis = -1>(%s)", s)
	}
	e := a.make("Exp(%s)", a.make("Sub(%s, %s)", s, a.make("ReduceMax<axes = [-1]>(%s)", s)))
	return a.make("Div(%s, %s)", e, a.make("ReduceSum(%s, %s)", e, a.ints(-1)))
}

// inEinstein is attention as sums of products in Einstein's notation.
func (a *attention) inEinstein(q, k, v string, length int) string {
	s := a.make(`Einsum<equation = "bhid,bhjd->bhij">(%s, %s)`, q, k)
	return a.make(`Einsum<equation = "bhij,bhjd->bhid">(%s, %s)`, a.softmax(s, length, a.batch, a.heads), v)
}

func boolOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
