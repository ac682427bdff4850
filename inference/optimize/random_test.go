package optimize_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/inference/optimize"
	_ "memopt/internal/test/rapidflags"
)

// writer writes random graphs that have much to optimize: identities, chains, duplicates, constants of
// constants, arithmetic of shapes, affine nodes behind products.
type writer struct {
	t         *rapid.T
	nodes     []string
	constants []string
	values    []tensor
	serial    int
}

// tensor is a value of floats with the symbol N as its first dim, and numbers behind.
type tensor struct {
	name string
	dims []int
}

func (t tensor) text() string {
	s := "float[N"
	for _, d := range t.dims {
		s += fmt.Sprint(", ", d)
	}
	return s + "] " + t.name
}

func (w *writer) draw(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "n") }

func (w *writer) name() string {
	w.serial++
	return fmt.Sprintf("v%d", w.serial)
}

func (w *writer) node(format string, args ...any) string {
	name := w.name()
	w.nodes = append(w.nodes, name+" = "+fmt.Sprintf(format, args...))
	return name
}

// floats is a constant; some are nodes, and some are computed from others.
func (w *writer) floats(dims ...int) string {
	n := 1
	shape := []string{}
	for _, d := range dims {
		n *= d
		shape = append(shape, fmt.Sprint(d))
	}
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint([]float64{-1, -0.5, 0, 0.5, 1, 2}[w.draw(6)])
	}
	value := fmt.Sprintf("float[%s] {%s}", strings.Join(shape, ", "), strings.Join(list, ", "))
	if len(dims) == 0 {
		value = fmt.Sprintf("float {%s}", list[0])
	}
	switch w.draw(4) {
	case 0:
		return w.node("Constant <value = %s> ()", value)
	case 1:
		return w.node("Neg (%s)", w.initializer(value))
	}
	return w.initializer(value)
}

func (w *writer) initializer(value string) string {
	name := w.name()
	w.constants = append(w.constants, strings.Replace(value, " {", " "+name+" = {", 1))
	return name
}

func (w *writer) ints(list ...int) string {
	text := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(list)), ", "), "[]")
	return w.initializer(fmt.Sprintf("int64[%d] {%s}", len(list), text))
}

// step adds nodes that make a new value of an old one.
func (w *writer) step() {
	x := w.values[w.draw(len(w.values))]
	size := 1
	for _, d := range x.dims {
		size *= d
	}
	rank := len(x.dims) + 1
	y := tensor{dims: x.dims}
	switch w.draw(14) {
	case 0:
		y.name = w.node("Identity (%s)", x.name)
	case 1:
		y.name = w.node("Relu (%s)", x.name)
	case 2:
		y.name = w.node("Cast <to = %d> (%s)", 1, w.node("Cast <to = %d> (%s)", []int{1, 11}[w.draw(2)], x.name))
	case 3:
		y.name = w.node("%s (%s, %s)", []string{"Add", "Mul"}[w.draw(2)], x.name, w.floats())
	case 4:
		y.name = w.node("Add (%s, %s)", w.floats(x.dims...), x.name)
	case 5:
		y.name = w.node("Reshape (%s, %s)", x.name, w.ints(-1, size))
		y.dims = []int{size}
	case 6: // by arithmetic of shapes
		first := w.node("Gather (%s, %s)", w.node("Shape (%s)", x.name), w.ints(0))
		y.name = w.node("Reshape (%s, %s)", x.name,
			w.node("Concat <axis = 0> (%s, %s)", first, w.ints(size)))
		y.dims = []int{size}
	case 7: // there and back
		perm := make([]int, rank)
		for i := range perm {
			perm[i] = (i + 1) % rank
		}
		list := strings.Join(strings.Fields(fmt.Sprint(perm)), ", ")
		y.name = x.name
		for range rank {
			y.name = w.node("Transpose <perm = %s> (%s)", list, y.name)
			if w.draw(4) == 0 {
				y.name = w.node("Neg (%s)", y.name)
			}
		}
	case 8: // a product, and what is behind it
		if rank != 2 {
			return
		}
		n := 1 + w.draw(3)
		y.dims = []int{n}
		switch w.draw(3) {
		case 0:
			y.name = w.node("Gemm <transB = 1> (%s, %s)", x.name, w.floats(n, size))
		case 1:
			y.name = w.node("MatMul (%s, %s)", x.name, w.floats(size, n))
		default:
			y.name = w.node("MatMul (%s, %s)", x.name, w.node("Transpose (%s)", w.floats(n, size)))
		}
	case 9: // a convolution on one axis
		if rank != 3 {
			return
		}
		n := 1 + w.draw(2)
		y.dims = []int{n, x.dims[1]}
		switch w.draw(3) {
		case 0:
			y.name = w.node("Conv <auto_pad = \"SAME_UPPER\"> (%s, %s)", x.name, w.floats(n, x.dims[0], 1))
		case 1:
			y.name = w.node("Conv <pads = [1, 1]> (%s, %s)", x.name, w.floats(n, x.dims[0], 3))
		default:
			left, right := w.draw(3), w.draw(2)
			padded := w.node("Pad (%s, %s)", x.name, w.ints(0, 0, left, 0, 0, right))
			y.name = w.node("Conv <pads = [1, 0]> (%s, %s)", padded, w.floats(n, x.dims[0], 2))
			y.dims[1] += left + right
		}
	case 10:
		if rank < 3 {
			return
		}
		c := x.dims[0]
		scale := w.floats(c)
		positive := w.node("Exp (%s)", w.floats(c))
		y.name = w.node("BatchNormalization (%s, %s, %s, %s, %s)", x.name, scale, w.floats(c), w.floats(c), positive)
	case 11:
		one := w.floats(1)
		y.name = w.node("Mul (%s, %s)", x.name, one)
	case 12:
		if rank < 2 || size%2 != 0 {
			return
		}
		y.name, y.dims = w.node("Reshape (%s, %s)", x.name, w.ints(0, 2, size/2)), []int{2, size / 2}
	default: // the same again
		y.name = w.node("Tanh (%s)", x.name)
	}
	w.values = append(w.values, y)
}

// TestRandom: whatever a graph is, the optimized one computes the same and is no larger; without
// passes that change bits, all bits are the same.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{t: t, values: []tensor{{"x", []int{2, 3}}, {"z", []int{4}}}}
		for range rapid.IntRange(1, 14).Draw(t, "steps") {
			w.step()
		}
		var outs []string
		for i, v := range w.values[2:] {
			if i == len(w.values)-3 || w.draw(3) == 0 {
				outs = append(outs, v.text())
			}
		}
		if len(outs) == 0 {
			t.Skip("nothing was made")
		}
		text := fmt.Sprintf("g (float[N, 2, 3] x, float[N, 4] z) => (%s) <%s> {\n%s\n}", strings.Join(outs, ", "),
			strings.Join(w.constants, ", "), strings.Join(w.nodes, "\n"))
		text = strings.ReplaceAll(text, " <> ", " ")
		o := optimize.Options{Exact: rapid.Bool().Draw(t, "exact")}
		m := read(t, text, map[string]int64{"N": int64(1 + w.draw(3))})
		r, err := optimize.Run(t.Context(), m, o)
		require.NoError(t, err, text)
		sound(t, r, o, text)
	})
}
