package autograd_test

import (
	"testing"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

func truthTensor(v bool) *executor.Tensor {
	x := &executor.Tensor{DType: graph.Bool, Shape: []int{}, Data: []byte{0}}
	if v {
		x.Data[0] = 1
	}
	return x
}

// TestIf: both branches, values that one branch alone uses, values passed through, nesting.
func TestIf(t *testing.T) {
	var cases []gradCase
	for _, cond := range []bool{true, false} {
		in := map[string]*executor.Tensor{"c": truthTensor(cond)}
		name := map[bool]string{true: ", then", false: ", else"}[cond]
		add := func(c gradCase) {
			c.Name += name
			c.In = in
			cases = append(cases, c)
		}
		add(gradCase{Name: "products", Graph: `g (bool c, double[3] x, double[3] w) => (double[3] y) {
			y = If<then_branch = t () => (double[3] a) { a = Mul(x, w) }, else_branch = e () => (double[3] b) { r = Relu(x)  b = Mul(r, r) }>(c) }`})
		add(gradCase{Name: "made before", Graph: `g (bool c, double[3] x, double[3] w) => (double[3] y) { v = Mul(x, x)
			z = If<then_branch = t () => (double[3] a) { u = Mul(v, w)  a = Relu(u) }, else_branch = e () => (double[3] b) { b = Relu(x) }>(c)  y = Mul(z, v) }`})
		add(gradCase{Name: "two outputs, symbolic", Dims: symbolic.Env{"N": 3},
			Graph: `g (bool c, double[N] x, double[N, 2] w, double[N, 2] other) => (double[N] y, double[N, 2] z) {
			y, z = If<then_branch = t () => (double[N] a, double[N, 2] a2) { a = Mul(x, x)  a2 = Mul(w, other) },
				else_branch = e () => (double[N] b, double[N, 2] b2) { two = Constant<value = double {2}>()  b = Add(x, two)  b2 = Mul(w, two) }>(c) }`})
		add(gradCase{Name: "one output unused", Graph: `g (bool c, double[3] x, double[3] w) => (double[3] y) {
			y, unused = If<then_branch = t () => (double[3] a, double[3] a2) { a = Mul(x, x)  a2 = Mul(w, w) },
				else_branch = e () => (double[3] b, double[3] b2) { b = Mul(x, w)  b2 = Hardmax(x) }>(c) }`})
		add(gradCase{Name: "nested", Graph: `g (bool c, double[3] x, double[3] w) => (double[3] y) {
			y = If<then_branch = t () => (double[3] a) { s = Mul(x, w)
					a = If<then_branch = t2 () => (double[3] a2) { a2 = Mul(s, x) }, else_branch = e2 () => (double[3] b2) { b2 = Relu(s) }>(c) },
				else_branch = e () => (double[3] b) { s2 = Mul(x, x)
					b = If<then_branch = t3 () => (double[3] a3) { a3 = Mul(s2, x) }, else_branch = e3 () => (double[3] b3) { b3 = Mul(s2, w) }>(c) }>(c) }`})
	}
	checkGradients(t, cases)
}

// TestScan: states, captured values, directions, axes, rows, states without gradients.
func TestScan(t *testing.T) {
	checkGradients(t, []gradCase{
		{Name: "recurrence", Graph: `g (double[2] s, double[4, 2] x, double[2] w) => (double[2] last, double[4, 2] ys) {
			last, ys = Scan<num_scan_inputs = 1, body = b (double[2] h, double[2] xt) => (double[2] h2, double[2] y) {
				p = Mul(h, w)  q = Add(p, xt)  h2 = Relu(q)  y = Mul(h2, xt) }>(s, x) }`},
		{Name: "last state alone", Graph: `g (double[2] s, double[4, 2] x) => (double[2] last) {
			last, ys = Scan<num_scan_inputs = 1, body = b (double[2] h, double[2] xt) => (double[2] h2, double[2] y) {
				p = Mul(h, xt)  h2 = Add(p, xt)  y = Mul(h2, xt) }>(s, x) }`},
		{Name: "rows alone", Graph: `g (double[2] s, double[4, 2] x) => (double[4, 2] ys) {
			last, ys = Scan<num_scan_inputs = 1, body = b (double[2] h, double[2] xt) => (double[2] h2, double[2] y) {
				h2 = Mul(h, xt)  y = Mul(h2, h) }>(s, x) }`},
		{Name: "directions and axes, symbolic", Dims: symbolic.Env{"N": 3, "T": 4},
			Graph: `g (double[N] s, double[N, T] x, double[T, N] z, double[N] w) => (double[N] last, double[N, T] a, double[T, N] b) {
			last, a, b = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1], scan_output_axes = [-1, 0], scan_output_directions = [1, 0],
				body = b (double[N] h, double[N] xt, double[N] zt) => (double[N] h2, double[N] a1, double[N] b1) {
				p = Mul(h, xt)  h2 = Add(p, zt)  a1 = Mul(h2, w)  b1 = Mul(zt, xt) }>(s, x, z) }`},
		{Name: "axis counted from the end", Graph: `g (double[2] s, double[2, 3] x) => (double[2] last) {
			last = Scan<num_scan_inputs = 1, scan_input_axes = [-1], scan_input_directions = [1],
				body = b (double[2] h, double[2] xt) => (double[2] h2) { p = Mul(h, xt)  h2 = Mul(p, h) }>(s, x) }`},
		{Name: "no states", Graph: `g (double[4, 2] x, double[2] w) => (double[4, 2] y) {
			y = Scan<num_scan_inputs = 1, body = b (double[2] xt) => (double[2] yt) { yt = Mul(xt, w) }>(x) }`},
		{Name: "integer state", Opset: 13,
			Graph: `g (double[4] x) => (double[4] y) <int64 zero = {0}, int64 one = {1}> {
			n, y = Scan<num_scan_inputs = 1, body = b (int64 i, double xt) => (int64 i2, double yt) { i2 = Add(i, one)  f = Cast<to = 11>(i)  yt = Mul(xt, f) }>(zero, x) }`},
		{Name: "state passed on", Graph: `g (double[2] s, double[3, 2] x) => (double[2] last, double[3, 2] y) {
			last, y = Scan<num_scan_inputs = 1, body = b (double[2] h, double[2] xt) => (double[2] h, double[2] yt) { yt = Mul(xt, h) }>(s, x) }`},
		{Name: "slices not needed", Graph: `g (double[2] s, double[3, 2] x, double[2] w) => (double[2] last) {
			last = Scan<num_scan_inputs = 1, body = b (double[2] h, double[2] xt) => (double[2] h2) { q = Add(h, xt)  h2 = Add(q, w) }>(s, x) }`, Wrt: []string{"s", "w"}},
		{Name: "states that feed each other", Graph: `g (double[2] s, double[2] u, double[3, 2] x) => (double[2] last) {
			last, other = Scan<num_scan_inputs = 1, body = b (double[2] h, double[2] k, double[2] xt) => (double[2] h2, double[2] k2) {
				h2 = Mul(h, k)  k2 = Mul(k, xt) }>(s, u, x) }`},
		{Name: "broadcast capture", Graph: `g (double[2, 3] s, double[4, 3] x, double[2, 1] w) => (double[2, 3] last) {
			last = Scan<num_scan_inputs = 1, body = b (double[2, 3] h, double[3] xt) => (double[2, 3] h2) { p = Mul(h, w)  h2 = Add(p, xt) }>(s, x) }`},
		{Name: "nested",
			Graph: `g (double[2] s, double[4, 3, 2] x, double[2] w) => (double[2] last, double[4, 3, 2] ys) {
			last, ys = Scan<num_scan_inputs = 1, body = b (double[2] h, double[3, 2] xt) => (double[2] h2, double[3, 2] y) {
				h2, y = Scan<num_scan_inputs = 1, body = b2 (double[2] k, double[2] xtt) => (double[2] k2, double[2] yt) {
					p = Mul(k, w)  k2 = Add(p, xtt)  yt = Mul(k2, h) }>(h, xt) }>(s, x) }`},
		{Name: "products of matrices", Dims: symbolic.Env{"T": 3, "B": 2},
			Graph: `g (double[B, 3] s, double[T, B, 2] x, double[2, 3] w, double[3, 3] r, double[3] b) => (double[B, 3] last, double[T, B, 3] ys) {
			last, ys = Scan<num_scan_inputs = 1, body = b1 (double[B, 3] h, double[B, 2] xt) => (double[B, 3] h2, double[B, 3] y) {
				p = MatMul(xt, w)  q = MatMul(h, r)  u = Add(p, q)  v = Add(u, b)  h2 = Tanh(v)  y = Identity(h2) }>(s, x) }`},
		{Name: "a body that needs a newer operator set", Opset: 13,
			Graph: `g (double[5] s, double[4, 3] x) => (double[5] last) <int64[3] i = {4, 0, 4}> {
			last = Scan<num_scan_inputs = 1, body = b1 (double[5] h, double[3] xt) => (double[5] h2) {
				p = GatherElements(h, i)  q = Mul(p, xt)  t = ReduceSum(q)  h2 = Mul(h, t) }>(s, x) }`, Range: [2]float64{-1, 1}},
		{Name: "version 8", Opset: 8, Graph: `g (double[1, 2] s, double[1, 4, 2] x) => (double[1, 2] last) {
			last = Scan<num_scan_inputs = 1, body = b (double[2] h, double[2] xt) => (double[2] h2) { h2 = Mul(h, xt) }>("", s, x) }`, Fails: "operator set 9"},
	})
}

// TestLoop: counted loops and loops that a condition ends, the iteration's number, rows, nesting.
func TestLoop(t *testing.T) {
	checkGradients(t, []gradCase{
		{Name: "counted",
			Graph: `g (double[2] s, double[2] w) => (double[2] last, double[K, 2] ys) <int64 m = {3}, bool yes = {1}> {
			last, ys = Loop<body = b (int64 i, bool c, double[2] h) => (bool c2, double[2] h2, double[2] y) {
				c2 = Identity(c)  p = Mul(h, w)  h2 = Add(p, w)  y = Mul(h2, h) }>(m, yes, s) }`, Dims: symbolic.Env{"K": 3}},
		{Name: "number of the iteration", Graph: `g (double[2] s) => (double[2] last) <int64 m = {4}> {
			last = Loop<body = b (int64 i, bool c, double[2] h) => (bool c2, double[2] h2) {
				c2 = Identity(c)  f = Cast<to = 11>(i)  p = Mul(h, h)  h2 = Mul(p, f) }>(m, "", s) }`},
		{Name: "nothing but sums", Graph: `g (double[2] s, double[2] w) => (double[2] last) <int64 m = {4}> {
			last = Loop<body = b (int64 i, bool c, double[2] h) => (bool c2, double[2] h2) { c2 = Identity(c)  h2 = Add(h, w) }>(m, "", s) }`},
		{Name: "ended by a condition",
			Graph: `g (double[2] s, double[2] w) => (double[2] last) <bool yes = {1}, int64 two = {2}> {
			last = Loop<body = b (int64 i, bool c, double[2] h) => (bool c2, double[2] h2) { c2 = Less(i, two)  h2 = Mul(h, w) }>("", yes, s) }`},
		{Name: "symbolic", Dims: symbolic.Env{"N": 2},
			In: map[string]*executor.Tensor{
				"m": {DType: graph.Int64, Shape: []int{}, Data: executor.Memory([]int64{3})},
			},
			Graph: `g (int64 m, double[N] s, double[N] w) => (double[N] last) {
			last = Loop<body = b (int64 i, bool c, double[N] h) => (bool c2, double[N] h2) { c2 = Identity(c)  p = Mul(h, w)  h2 = Relu(p) }>(m, "", s) }`},
		{Name: "no iterations",
			In: map[string]*executor.Tensor{
				"m": {DType: graph.Int64, Shape: []int{}, Data: executor.Memory([]int64{0})},
			},
			Graph: `g (int64 m, double[2] s, double[2] w) => (double[2] last) {
			last = Loop<body = b (int64 i, bool c, double[2] h) => (bool c2, double[2] h2) { c2 = Identity(c)  p = Mul(h, w)  h2 = Relu(p) }>(m, "", s) }`},
		{Name: "an If inside",
			Graph: `g (double[2] s, double[2] w) => (double[2] last) <int64 m = {4}, int64 two = {2}> {
			last = Loop<body = b (int64 i, bool c, double[2] h) => (bool c2, double[2] h2) { c2 = Identity(c)  early = Less(i, two)
				h2 = If<then_branch = t () => (double[2] a) { a = Mul(h, w) }, else_branch = e () => (double[2] d) { d = Add(h, h) }>(early) }>(m, "", s) }`},
		{Name: "condition in an If", Graph: `g (double[2] s, double[2] w) => (double[2] last) <int64 m = {2}> {
			last = Loop<body = b (int64 i, bool c, double[2] h) => (bool c2, double[2] h2) { c2 = Identity(c)
				h2 = If<then_branch = t () => (double[2] a) { a = Mul(h, w) }, else_branch = e () => (double[2] d) { d = Add(h, h) }>(c) }>(m, "", s) }`},
		{Name: "a state that grows", Graph: `g (double[2] s) => (double[K] last) <int64 m = {2}> {
			last = Loop<body = b (int64 i, bool c, double[J] h) => (bool c2, double[L] h2) { c2 = Identity(c)  d = Mul(h, h)  h2 = Concat<axis = 0>(h, d) }>(m, "", s) }`,
			Dims: symbolic.Env{"K": 8}, Fails: "may change the shape"},
	})
}

// TestDropoutInBodies: a body runs again for its gradients, and a Dropout that surely rests with it.
func TestDropoutInBodies(t *testing.T) {
	in := map[string]*executor.Tensor{"c": truthTensor(true), "mode": truthTensor(false)}
	body := func(then string) string {
		return `g (bool c, bool mode, double[3] x) => (double[3] y) <double half = {0.5}, bool yes = {1}, bool no = {0}> {
			y = If<then_branch = t () => (double[3] a) { ` + then + ` }, else_branch = e () => (double[3] b) { b = Relu(x) }>(c) }`
	}
	nested := func(name string) string {
		return name + ` = If<then_branch = t2 () => (double[3] a2) { d = Dropout(x, half, no)  a2 = Mul(d, d) }, else_branch = e2 () => (double[3] b2) { b2 = Relu(x) }>(c)`
	}
	checkGradients(t, []gradCase{
		{Name: "no mode", Graph: body("d = Dropout(x, half)  a = Mul(d, d)"), In: in},
		{Name: "before the mode", Opset: 11, Graph: body("d = Dropout<ratio = 0.5>(x)  a = Mul(d, d)"), In: in},
		{Name: "mode false", Graph: body("d = Dropout(x, half, no)  a = Mul(d, d)"), In: in},
		{Name: "mode false, inside",
			Graph: body("off = Constant<value = bool {0}>()  d = Dropout(x, half, off)  a = Mul(d, d)"), In: in},
		{Name: "mode given", Graph: body("d = Dropout(x, half, mode)  a = Mul(d, d)"), In: in},
		{Name: "mode false, nested, not again", Graph: body(nested("a")), In: in},
		{Name: "mode false, nested, again", Graph: body(nested("z") + " a = Mul(z, z)"), In: in},
		{Name: "mode false, not read", Graph: body("d = Dropout(x, half, yes)  a = Mul(x, x)"), In: in},
	})
}
