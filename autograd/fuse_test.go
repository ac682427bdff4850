package autograd_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/half"
	"memopt/symbolic"
)

// written is a pattern as an exporter may write it.
type written struct {
	name  string // of the operator
	text  string // without alternatives
	opset int
	dtype string
	shape string      // of the input
	axes  string      // that are reduced
	swap  func() bool // whether two inputs that may change places do
}

// expansions lists what a form stands for, without alternatives: {a|b} is a or b.
func expansions(form string) []string {
	begin := strings.LastIndex(form, "{") // an innermost one
	if begin < 0 {
		return []string{form}
	}
	end := begin + strings.Index(form[begin:], "}")
	var all []string
	for _, choice := range strings.Split(form[begin+1:end], "|") {
		all = append(all, expansions(form[:begin]+choice+form[end+1:])...)
	}
	return all
}

// forms lists all forms of all patterns, as nodes of doubles.
func forms() []written {
	var all []written
	for _, row := range autograd.FusedForms() {
		for _, text := range expansions(strings.Join(strings.Fields(row[1]), "")) {
			all = append(all, written{name: row[0], text: text, opset: 13, dtype: "double", shape: "N, 3, 4",
				axes: "-1", swap: func() bool { return false }})
		}
	}
	return all
}

// writer writes the nodes of a pattern.
type writer struct {
	*written
	nodes, constants []string
	values           map[string]bool // what has been made
}

// graph is the text of a graph: what comes out of the pattern is scaled, as behind norms, and the
// input comes from a node, so that nothing else keeps it.
func (w written) graph() string {
	r := &writer{written: &w, values: map[string]bool{"x": true, "d": !strings.Contains(w.text, "d:")}}
	y, _ := r.term(w.text)
	input := "x"
	if r.values["d"] && !strings.Contains(w.text, "x") {
		input = "d"
	}
	row := w.shape[strings.LastIndex(w.shape, " ")+1:]
	text := fmt.Sprintf(`<ir_version: 8, opset_import: ["" : %d]> g (T[%s] source, T[%s] weight) => (T[%s] out) <%s> {`,
		w.opset, w.shape, row, w.shape, strings.Join(r.constants, ", "))
	text += fmt.Sprintf("%s = Neg(source)  %s  out = Mul(%s, weight) }", input, strings.Join(r.nodes, "  "), y)
	return strings.ReplaceAll(text, "T[", w.dtype+"[")
}

// term writes the nodes of the term that a text begins with, and returns the value and what follows.
func (w *writer) term(text string) (value, rest string) {
	at := strings.IndexAny(text, "():,")
	if at < 0 {
		at = len(text)
	}
	word := text[:at]
	switch {
	case at < len(text) && text[at] == ':':
		value, rest = w.term(text[at+1:])
		w.nodes = append(w.nodes, fmt.Sprintf("%s = Identity(%s)", word, value))
		last := &w.nodes[len(w.nodes)-2]
		*last = strings.Replace(*last, value+" =", word+" =", 1) // the node itself has the name
		w.nodes = w.nodes[:len(w.nodes)-1]
		return word, rest
	case at < len(text) && text[at] == '(':
		return w.node(word, text[at+1:])
	case word == "eps":
		return w.constant("1e-5"), text[at:]
	case word[0] <= '9':
		return w.constant(word), text[at:]
	}
	return word, text[at:]
}

// node writes a node, given the text of its arguments.
func (w *writer) node(name, text string) (value, rest string) {
	var args []string
	for more := true; more; {
		value, text = w.term(text)
		args, more = append(args, value), text[0] == ','
		text = text[1:]
	}
	if (name == "Add" || name == "Mul") && w.swap() {
		slices.Reverse(args)
	}
	attributes := ""
	switch {
	case name == "ReduceSum" || strings.HasPrefix(name, "Reduce") && w.opset >= 18:
		axes := fmt.Sprintf("a%d", len(w.constants))
		count := 1 + strings.Count(w.axes, ",")
		w.constants = append(w.constants, fmt.Sprintf("int64[%d] %s = {%s}", count, axes, w.axes))
		args = append(args, axes)
	case strings.HasPrefix(name, "Reduce"):
		attributes = "<axes = [" + w.axes + "]>"
	}
	value = fmt.Sprintf("v%d", len(w.nodes))
	w.nodes = append(w.nodes, fmt.Sprintf("%s = %s%s(%s)", value, name, attributes, strings.Join(args, ", ")))
	return value, text
}

func (w *writer) constant(number string) string {
	name := fmt.Sprintf("c%d", len(w.constants))
	if w.dtype == "float16" { // whose elements are written as bits
		x, err := strconv.ParseFloat(number, 32)
		if err != nil {
			panic(err)
		}
		number = fmt.Sprint(uint16(half.Float16From(float32(x))))
	}
	w.constants = append(w.constants, fmt.Sprintf("%s %s = {%s}", w.dtype, name, number))
	return name
}

// differentiated gives a graph its gradients.
func (w written) differentiated(t require.TestingT, unfused bool) *autograd.Joint {
	m, err := graph.Parse(w.graph(), w.name)
	require.NoError(t, err, w.graph())
	j, err := autograd.Differentiate(m, autograd.Options{Unfused: unfused, Wrt: []string{"source", "weight"},
		Losses: []autograd.Loss{{Name: "out", Seed: true}}})
	require.NoError(t, err, w.graph())
	return j
}

// stashed is how many bytes of the forward half a backward node reads.
func stashed(t *testing.T, j *autograd.Joint, env symbolic.Env) (bytes int64) {
	sizes, err := live.EvalSizes(j.Model.Graph, env)
	require.NoError(t, err)
	seen := make([]bool, len(j.Model.Graph.Values))
	for _, n := range j.Model.Graph.Nodes[j.Backward:] {
		for _, v := range n.Inputs {
			if v == graph.NoValue || seen[v] {
				continue
			}
			seen[v] = true
			if def := j.Model.Graph.Values[v].Def; def != graph.NoNode && def < j.Backward {
				bytes += sizes.Bytes[v]
			}
		}
	}
	return bytes
}

// TestFusedForms: every form of every pattern is recognised, its gradients are those of differences,
// and the backward half reads less of the forward half, which is as it was.
func TestFusedForms(t *testing.T) {
	env := symbolic.Env{"N": 5}
	var cases []gradCase
	for i, w := range forms() {
		j, plain := w.differentiated(t, false), w.differentiated(t, true)
		require.Equal(t, []autograd.Fused{{Pattern: w.name, Count: 1}}, j.Fused, w.text)
		require.Empty(t, plain.Fused)
		require.Less(t, stashed(t, j, env), stashed(t, plain, env), w.text)
		require.Equal(t, forwardOps(plain), forwardOps(j))
		cases = append(cases, gradCase{Name: fmt.Sprint(w.name, i), Graph: w.graph(), Dims: env, Seeds: 1})
	}
	require.Greater(t, len(cases), 25)
	checkGradients(t, cases)
}

// TestFusedRandom: in random shapes and versions, with inputs in any order, fused gradients are the
// plain ones within rounding.
func TestFusedRandom(t *testing.T) {
	all := forms()
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.SampledFrom(all).Draw(rt, "form")
		w.opset = rapid.SampledFrom([]int{13, 17, 18}).Draw(rt, "operator set")
		w.dtype = rapid.SampledFrom([]string{"double", "float"}).Draw(rt, "type")
		tol := 1e-10
		if w.dtype == "float" {
			tol = 2e-4
		}
		w.swap = func() bool { return rapid.Bool().Draw(rt, "swap") }
		dims := []string{"N", "3", "1", "7", "2"}
		shape := []string{}
		for range rapid.IntRange(1, 3).Draw(rt, "rank") {
			shape = append(shape, rapid.SampledFrom(dims).Draw(rt, "dim"))
		}
		w.shape = strings.Join(shape, ", ")
		w.axes = rapid.SampledFrom([]string{"-1", "0", "-1, 0"}).Draw(rt, "axes")
		if len(shape) == 1 && w.axes == "-1, 0" {
			w.axes = "0"
		}
		text := w.graph()
		w.swap = nil
		env := symbolic.Env{"N": int64(rapid.IntRange(1, 9).Draw(rt, "N"))}
		seed := rapid.Uint64().Draw(rt, "seed")
		var results [2][]*executor.Tensor
		for i, unfused := range []bool{false, true} {
			m, err := graph.Parse(text, w.name)
			require.NoError(rt, err, text)
			j, err := autograd.Differentiate(m, autograd.Options{Unfused: unfused, Wrt: []string{"source", "weight"},
				Losses: []autograd.Loss{{Name: "out", Seed: true}}})
			require.NoError(rt, err, text)
			require.Equal(rt, !unfused, len(j.Fused) == 1, text)
			filler, in := dataset.NewFiller(j.Model.Graph, env, seed), tensors{}
			for _, d := range j.Model.Graph.Inputs {
				in[j.Model.Graph.ValueName(d.Value)], err = filler.Fill(d.Value)
				require.NoError(rt, err)
			}
			results[i] = newRunner(t, j.Model, env)(in)
		}
		require.Equal(rt, results[1][0].Data, results[0][0].Data, "the forward half of %s", text)
		for i := range results[0] {
			requireClose(rt, results[1][i], results[0][i], tol, text)
		}
	})
}

// requireClose requires elements to differ by at most a share of the largest.
func requireClose(t require.TestingT, want, got *executor.Tensor, tol float64, text string) {
	a, b := asDoubles(want), asDoubles(got)
	largest := 1.0
	for _, x := range a {
		largest = max(largest, x, -x)
	}
	require.InDeltaSlice(t, a, b, tol*largest, text)
}

func asDoubles(x *executor.Tensor) []float64 {
	if x.DType == graph.Float64 {
		return executor.Of[float64](x)
	}
	var out []float64
	for _, v := range executor.Of[float32](x) {
		out = append(out, float64(v))
	}
	return out
}

// TestFusedHalf: constants that were rounded to 16 bits are recognised, and the gradients are those in
// float within the type's rounding.
func TestFusedHalf(t *testing.T) {
	env := symbolic.Env{"N": 4}
	for _, w := range forms() {
		var results [2][]*executor.Tensor
		in := tensors{}
		for i, dtype := range []string{"float", "float16"} {
			w.dtype = dtype
			j := w.differentiated(t, i == 0)
			require.Equal(t, i, len(j.Fused), w.text)
			filler := dataset.NewFiller(j.Model.Graph, env, 3)
			for _, d := range j.Model.Graph.Inputs {
				name := j.Model.Graph.ValueName(d.Value)
				x, err := filler.Fill(d.Value)
				require.NoError(t, err)
				if i == 1 {
					data := halves(executor.Of[float32](in[name]))
					x = &executor.Tensor{DType: graph.Float16, Shape: x.Shape, Data: data}
				}
				in[name] = x
			}
			results[i] = newRunner(t, j.Model, env)(in)
		}
		g := w.differentiated(t, false).Model.Graph
		for _, n := range g.Nodes { // a sum of a row may be more than float16 holds
			if n.Op == "ReduceMean" && strings.Contains(n.Name, "_grad") {
				require.Equal(t, graph.Float32, g.Values[n.Outputs[0]].Type.DType)
			}
		}
		for i, x := range results[1] {
			want, got := asDoubles(results[0][i]), []float64{}
			for _, bits := range executor.Of[uint16](x) {
				got = append(got, float64(half.Float16(bits).Float32()))
			}
			require.InDeltaSlice(t, want, got, 0.03, w.text)
		}
	}
}

func halves(v []float32) []byte {
	bits := make([]uint16, len(v))
	for i, x := range v {
		bits[i] = uint16(half.Float16From(x))
	}
	return executor.Memory(bits)
}

// TestNotFused: what only looks like a pattern keeps its own gradient.
func TestNotFused(t *testing.T) {
	const gelu = `{ h = Div(x, r)  e = Erf(h)  a = Add(e, one)  m = Mul(x, a)  y = Mul(m, half) }`
	const numbers = `<double r = {1.4142135623730951}, double one = {1}, double half = {0.5}>`
	const norm = `{ u = ReduceMean<axes = [1]>(x)  d = Sub(x, u)  p = Pow(d, two)  w = ReduceMean<axes = [1]>(p)
		q = Add(w, eps)  s = Sqrt(q)  y = Div(d, s) }`
	const two = `<double two = {2}, double eps = {1e-5}>`
	const softmax = `{ u = ReduceMax<axes = [1]>(x)  d = Sub(x, u)  e = Exp(d)  s = ReduceSum(e, a)  y = Div(e, s) }`
	const last = `<int64[1] a = {1}>`
	in := func(inputs, outputs, numbers, nodes string, changes ...string) string {
		text := fmt.Sprintf("g (double[3, 4] x%s) => (%s) %s %s", inputs, outputs, numbers, nodes)
		for i := 0; i < len(changes); i += 2 {
			if !strings.Contains(text, changes[i]) {
				panic(changes[i])
			}
			text = strings.Replace(text, changes[i], changes[i+1], 1)
		}
		return text
	}
	y, z := "double[3, 4] y", "double[3, 4] y, double[3, 4] z"
	var cases []gradCase
	for _, c := range []struct {
		name, text string
		fused      int
		wrt        []string
		loss       string // "": y
	}{
		{name: "GELU", text: in("", y, numbers, gelu), fused: 1},
		{name: "norm", text: in("", y, two, norm), fused: 1},
		{name: "softmax", text: in("", y, last, softmax), fused: 1},
		{name: "another reader", text: in("", z, numbers, gelu, "Erf(h)", "Erf(h)  z = Neg(e)")},
		{name: "a reader of the shape", text: in("", "double[3, 4] y, int64[2] k", numbers, gelu,
			"Erf(h)", "Erf(h)  k = Shape(e)")},
		{name: "an output", text: in("", "double[3, 4] y, double[3, 4] a", numbers, gelu)},
		{name: "another number", text: in("", y, numbers, gelu, "1.4142135623730951", "1.414")},
		{name: "another factor", text: in("", y, numbers, gelu, "0.5", "0.6")},
		{name: "a factor that is wanted", text: in("", y, numbers, gelu), wrt: []string{"x", "half"}},
		{name: "a factor from outside", text: in(", double half", y, numbers, gelu)},
		{name: "a gradient that nobody wants", text: in(", double[3, 4] x2", "double[3, 4] y2", numbers, gelu,
			"Mul(m, half)", "Mul(m, half)  y2 = Mul(y, x2)"), wrt: []string{"x2"}, loss: "y2"},
		{name: "a number of more dims", text: in("", "double[1, 3, 4] y", numbers, gelu,
			"double half = {0.5}", "double[1, 1, 1] half = {0.5}")},
		{name: "a number of as many dims", fused: 1, text: in("", y, numbers, gelu,
			"double half = {0.5}", "double[1, 1] half = {0.5}")},
		{name: "an unknown rank", text: in(", int64[K] k", "double y", numbers, gelu,
			"{ h = Div(x, r)", "{ z = Reshape(x, k)  h = Div(z, r)", "Mul(x, a)", "Mul(z, a)",
			"half)", "half)  y = ReduceSum<keepdims = 0>(o)", "y = Mul(m", "o = Mul(m")},
		{name: "another input", text: in(", double[3, 4] x2", y, numbers, gelu, "Mul(x, a)", "Mul(x2, a)")},
		{name: "another operator", text: in("", y, numbers, gelu, "Erf", "Tanh")},
		{name: "not taken apart", text: in("", y, numbers, gelu, "Mul(m, half)", "Div(m, half)")},
		{name: "a third power", text: in("", y, two, norm, "two = {2}", "two = {3}",
			"s = Sqrt(q)", "o = Abs(q)  s = Sqrt(o)")},
		{name: "a mean over other axes, and so only the mean square", fused: 1,
			text: in("", y, two, norm, "<axes = [1]>(p)", "<axes = [0]>(p)")},
		{name: "the norm's denominator elsewhere", text: in("", "double[3, 4] y, double[3, 1] s", two, norm)},
		{name: "without dims of 1", text: strings.ReplaceAll(in("", y, two, norm, "double[3, 4] x", "double[4, 4] x",
			"double[3, 4] y", "double[4, 4] y"), "axes = [1]", "axes = [1], keepdims = 0")},
		{name: "another greatest, and so a softmax without", fused: 1,
			text: in(", double[3, 4] x2", y, last, softmax, "(x)", "(x2)")},
		{name: "sums of columns, and so a softmax of these", fused: 1, text: in("", y, "<int64[1] a = {0}>", softmax)},
		{name: "sums over axes from outside", text: in(", int64[1] a", y, "", softmax)},
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+c.text, c.name)
		require.NoError(t, err, c.text)
		if c.wrt == nil {
			cases = append(cases, gradCase{Name: c.name, Graph: c.text, Dims: symbolic.Env{"K": 2},
				In: tensors{"a": ints([]int{1}, 1), "k": ints([]int{2}, 4, 3)}})
			for _, d := range m.Graph.Inputs {
				if d.Type.DType.IsFloat() {
					c.wrt = append(c.wrt, m.Graph.ValueName(d.Value))
				}
			}
		}
		opts := autograd.Options{Wrt: c.wrt, Losses: []autograd.Loss{
			{Name: cmp.Or(c.loss, "y"), Seed: true}}}
		j, err := autograd.Differentiate(m, opts)
		require.NoError(t, err, c.text)
		require.Len(t, j.Fused, c.fused, c.name)
	}
	checkGradients(t, cases)

	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+in("", y, numbers, gelu), "loss between")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"x"},
		Losses: []autograd.Loss{{Name: "y", Seed: true}, {Name: "e", Seed: true}}})
	require.NoError(t, err)
	require.Empty(t, j.Fused)
}

// TestFusedInside: patterns in the branches of an If and the body of a Loop.
func TestFusedInside(t *testing.T) {
	const text = `g (bool c, double[3, 4] x) => (double[3, 4] y) <int64[1] a = {1}> { y = If<
			then_branch = t () => (double[3, 4] p) { u = ReduceMax<axes = [1]>(x)  d = Sub(x, u)  e = Exp(d)
				s = ReduceSum(e, a)  p = Div(e, s) },
			else_branch = f () => (double[3, 4] q) { q = Neg(x) }>(c) }`
	yes := &executor.Tensor{DType: graph.Bool, Shape: []int{}, Data: []byte{1}}
	checkGradients(t, []gradCase{{Name: "branches", In: tensors{"c": yes}, Graph: text}})
	for _, unfused := range []bool{false, true} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "branches")
		require.NoError(t, err)
		j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"x"}, Unfused: unfused,
			Losses: []autograd.Loss{{Name: "y", Seed: true}}})
		require.NoError(t, err)
		// Node by node the greatest elements have to be found again.
		require.Equal(t, unfused, strings.Contains(graph.Format(j.Model, graph.FormatOptions{}), "Equal"))
	}
}
