package autograd_test

import (
	"fmt"
	"testing"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// reduceCases makes cases of y = op(x, axes) in the dialects of the axes: an attribute and an input
// that is constant or comes at run time.
func reduceCases(op string, lo, hi float64) []gradCase {
	forms := []struct{ axes, kept, dropped string }{
		{"", "[1, 1, 1]", ""}, {"0", "[1, 3, 4]", "[3, 4]"}, {"-1", "[2, 3, 1]", "[2, 3]"},
		{"1", "[2, 1, 4]", "[2, 4]"},
		{"2, 0", "[1, 3, 1]", "[3]"}, {"0, 1", "[1, 1, 4]", "[4]"}, {"-2, -1", "[2, 1, 1]", "[2]"},
		{"0, 1, 2", "[1, 1, 1]", ""},
	}
	var out []gradCase
	env := symbolic.Env{"N": 2, "M": 3, "A": 0}
	add := func(opset int64, name, text string, in map[string]*executor.Tensor) {
		out = append(out,
			gradCase{
				Name: fmt.Sprintf("%s %d %s", op, opset, name), Graph: text, Opset: opset, Range: [2]float64{lo, hi},
				Dims: env, In: in,
			})
	}
	for i, f := range forms {
		n := len(axesVector(f.axes))
		for keep, y := range []string{f.dropped, f.kept} {
			env := symbolic.Env{"N": 2, "M": 3, "K": 4, "A": int64(n)}
			for i, d := range axesVector(y) {
				env[string("PQR"[i])] = d
			}
			add := func(opset int64, name, text string, in map[string]*executor.Tensor) {
				add(opset, name, text, in)
				out[len(out)-1].Dims = env
			}
			for _, x := range []string{"[2, 3, 4]", "[N, M, K]", "[N, 3, 4]"} {
				name := fmt.Sprintf("%s axes %s keep %d", x, f.axes, keep)
				rank := "double" + y // its dims are not declared
				if len(x) > 0 && x != "[2, 3, 4]" {
					rank = "double" + reduceSymbols(y)
				}
				attr := fmt.Sprintf("g (double%s x) => (%s y) { y = %s<keepdims = %d%%s>(x%%s) }", x, rank, op, keep)
				axesAttr := fmt.Sprintf(", axes = [%s]", f.axes)
				if f.axes == "" {
					axesAttr = ""
				}
				if op != "ReduceSum" {
					add(13, name, fmt.Sprintf(attr, axesAttr, ""), nil)
				}
				if i%2 == 0 {
					add(11, name, fmt.Sprintf(attr, axesAttr, ""), nil)
				}
				constant := fmt.Sprintf("g (double%s x) => (%s y) <int64[%d] a = {%s}> { y = %s<keepdims = %d>(x, a) }",
					x, rank, n, f.axes, op, keep)
				opset := int64(18)
				if op == "ReduceSum" {
					opset = 13
				}
				add(opset, name+" constant", constant, nil)
				dynamic := fmt.Sprintf("g (double%s x, int64[%d] a) => (%s y) { y = %s<keepdims = %d>(x, a) }",
					x, n, rank, op, keep)
				add(opset, name+" at run time", dynamic,
					map[string]*executor.Tensor{"a": executor.NewTensor(graph.Int64, []int{n}, axesVector(f.axes)...)})
				dynamic = fmt.Sprintf("g (double%s x, int64[A] a) => (double y) { r = %s<keepdims = %d>(x, a)  y = "+
					"ReduceSum<keepdims = 0>(r) }", x, op, keep)
				add(opset, name+" of unknown number", dynamic,
					map[string]*executor.Tensor{"a": executor.NewTensor(graph.Int64, []int{n}, axesVector(f.axes)...)})
			}
		}
	}
	opset := int64(18)
	if op == "ReduceSum" {
		opset = 13
	}
	add(opset, "noop", fmt.Sprintf("g (double[N, M] x) => (double[N, M] y) { y = %s<noop_with_empty_axes = 1>(x) }",
		op), nil)
	add(opset, "noop, empty",
		fmt.Sprintf("g (double[N, M] x) => (double[N, M] y) <int64[0] a = {}> { y = %s<noop_with_empty_axes = 1, "+
			"keepdims = 0>(x, a) }", op), nil)
	for keep := range 2 {
		none := map[string]*executor.Tensor{"a": executor.NewTensor[int64](graph.Int64, []int{0})}
		add(opset, fmt.Sprint("noop, empty at run time, keep ", keep),
			fmt.Sprintf("g (double[2, 1, 3] x, int64[A] a) => (double y) { r = %s<noop_with_empty_axes = 1, "+
				"keepdims = %d>(x, a)  y = ReduceSum<keepdims = 0>(r) }", op, keep), none)
	}
	add(opset, "scalar", fmt.Sprintf("g (double x) => (double y) { y = %s(x) }", op), nil)
	return out
}

// reduceSymbols puts symbols for the dims of "[2, 3]".
func reduceSymbols(y string) string {
	return [...]string{"", "[P]", "[P, Q]", "[P, Q, R]"}[len(axesVector(y))]
}

// axesVector reads "0, -1".
func axesVector(text string) []int64 {
	var out []int64
	sign := int64(1)
	for _, c := range text {
		switch {
		case c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			out, sign = append(out, sign*int64(c-'0')), 1
		}
	}
	return out
}

func TestReduce(t *testing.T) {
	for _, op := range []string{"ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
		"ReduceProd", "ReduceSum", "ReduceSumSquare"} {
		checkGradients(t, reduceCases(op, -2, 2))
	}
	checkGradients(t, reduceCases("ReduceLogSum", 0.5, 2))
}
