package graphtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/symbolic"
)

// Family makes graphs that grow in one respect only, for tests and benchmarks of how work grows
// with it.
type Family struct {
	Name string
	// Make returns the member of size n. Its file grows linearly in n.
	Make func(n int) *graph.Model
	// Bounded says that the work on it is not linear but bounded: beyond the bound, members end
	// with an error or with unknown sizes.
	Bounded bool
}

// Families lists ways for graphs to grow, for example in the length of a chain.
func Families() []Family {
	return []Family{
		{Name: "chain", Make: Chain},
		{Name: "training", Make: func(n int) *graph.Model { return layersOf(n, false) }},
		{Name: "yield", Make: func(n int) *graph.Model { return layersOf(n, true) }},
		{Name: "inputs-of-node", Make: manyOperands},
		{Name: "outputs-of-node", Make: manyResults},
		{Name: "readers", Make: manyReaders},
		{Name: "graph-inputs", Make: manyInputs},
		{Name: "graph-outputs", Make: manyOutputs},
		{Name: "initializers", Make: manyInitializers},
		{Name: "symbols", Make: manySymbols},
		{Name: "sums", Make: func(n int) *graph.Model { return growing(n, sumOfDims) }, Bounded: true},
		{Name: "products", Make: func(n int) *graph.Model { return growing(n, productOfSums) }, Bounded: true},
		{Name: "floors", Make: func(n int) *graph.Model { return growing(n, nestedFloors) }, Bounded: true},
		{Name: "shapes", Make: shapeChain},
		{Name: "views", Make: manyViews},
		{Name: "branches", Make: func(n int) *graph.Model { return control(n, "If") }},
		{Name: "loops", Make: func(n int) *graph.Model { return control(n, "Loop") }},
		{Name: "nested", Make: nested, Bounded: true},
		{Name: "attributes", Make: manyAttributes},
		{Name: "strings", Make: manyStrings},
		{Name: "metadata", Make: manyMetadata},
		{Name: "long-name", Make: longName},
		{Name: "calls", Make: manyCalls},
		{Name: "functions", Make: nestedCalls},
		{Name: "doubling", Make: doublingCalls, Bounded: true},
		{Name: "backwards", Make: reversed},
	}
}

// Select returns the families of the given names.
func Select(t tester, names ...string) []Family {
	t.Helper()
	var out []Family
	for _, name := range names {
		all := Families()
		i := slices.IndexFunc(all, func(f Family) bool { return f.Name == name })
		if i < 0 {
			t.Fatalf("there is no family %q", name)
		}
		out = append(out, all[i])
	}
	return out
}

// plain starts a graph whose activations have 4 rows of 8 numbers.
func plain() *maker {
	return newMaker(rand.New(rand.NewPCG(1, 1)), Options{Rows: 4, Width: 8})
}

// seal ends a graph and makes a model of it.
func (b *maker) seal() *graph.Model {
	if err := b.g.Seal(); err != nil {
		panic("graphtest: " + err.Error())
	}
	return &graph.Model{Path: "family", IRVersion: 8, ProducerName: "graphtest", Graph: b.g,
		Opsets: []graph.Opset{{Version: 18}, {Domain: "com.microsoft", Version: 1}}}
}

// loss ends a graph in the mean of an activation.
func (b *maker) loss(x graph.ValueID) *graph.Model {
	mean := b.one("", "ReduceMean", []graph.Attr{num("keepdims", 0)}, x)
	b.output(mean, graph.Tensor(graph.Float32, graph.Dims()))
	return b.seal()
}

// Chain is a forward graph of n nodes; each reads the one before it and, with few exceptions, a
// parameter.
func Chain(n int) *graph.Model {
	b := plain()
	w := b.parameter("w", 8)
	b.g.Reserve(n, n+8)
	x := b.cur
	for i := range n {
		switch i % 4 {
		case 0:
			x = b.one("", "Mul", nil, x, w)
		case 1:
			x = b.one("", "Sigmoid", nil, x)
		case 2:
			x = b.one("", "Add", nil, x, w)
		case 3:
			x = b.one("", "Tanh", nil, x)
		}
	}
	return b.loss(x)
}

// parameter is an initializer of ones.
func (b *maker) parameter(name string, dims ...int64) graph.ValueID {
	size := int64(1)
	for _, d := range dims {
		size *= d
	}
	raw := strings.Repeat("\x00\x00\x80\x3f", int(size))
	id, err := b.g.AddInitializer(&graph.TensorData{Name: name, DType: graph.Float32, Dims: dims,
		Source: graph.Raw(raw)})
	if err != nil {
		panic("graphtest: " + err.Error())
	}
	return id
}

func layersOf(n int, yield bool) *graph.Model {
	return Training(rand.New(rand.NewPCG(1, 1)), Options{Nodes: n, Layers: true, Yield: yield, Rows: 4, Width: 8})
}

// manyOperands is a Sum of n activations.
func manyOperands(n int) *graph.Model {
	b := plain()
	parts := make([]graph.ValueID, n)
	for i := range parts {
		parts[i] = b.one("", "Relu", nil, b.cur)
	}
	return b.loss(b.one("", "Sum", nil, parts...))
}

// manyResults is a Split into n parts that are all read.
func manyResults(n int) *graph.Model {
	b := plain()
	x := b.input("wide", graph.Tensor(graph.Float32, graph.Ints(int64(n), 8)))
	parts := b.add("", "Split", n, []graph.Attr{num("axis", 0), num("num_outputs", int64(n))}, x)
	return b.loss(b.one("", "Concat", []graph.Attr{num("axis", 0)}, parts...))
}

// manyReaders is a value that n nodes read, which are joined one by one.
func manyReaders(n int) *graph.Model {
	b := plain()
	root := b.one("", "Sigmoid", nil, b.cur)
	x := root
	for range n {
		x = b.one("", "Add", nil, x, root)
	}
	return b.loss(x)
}

// manyInputs has n graph inputs.
func manyInputs(n int) *graph.Model {
	b := plain()
	x := b.cur
	for i := range n {
		x = b.one("", "Add", nil, x, b.input(fmt.Sprintf("in_%d", i), b.act))
	}
	return b.loss(x)
}

// manyOutputs has n graph outputs.
func manyOutputs(n int) *graph.Model {
	b := plain()
	x := b.cur
	for range n {
		x = b.one("", "Sigmoid", nil, x)
		b.output(x, b.act)
	}
	return b.loss(x)
}

// manyInitializers has n parameters.
func manyInitializers(n int) *graph.Model {
	b := plain()
	x := b.cur
	for i := range n {
		x = b.one("", "Add", nil, x, b.parameter(fmt.Sprintf("p_%d", i), 8))
	}
	return b.loss(x)
}

// manySymbols has n graph inputs, each with a symbol for its rows.
func manySymbols(n int) *graph.Model {
	b := plain()
	x := b.cur
	for i := range n {
		s := symbolic.Sym(fmt.Sprintf("s%d", i))
		in := b.input(fmt.Sprintf("in_%d", i), graph.Tensor(graph.Float32, graph.Dims(s, symbolic.Const(8))))
		x = b.one("", "Add",
			nil, x, b.one("", "ReduceMean", []graph.Attr{num("keepdims", 0)}, b.one("", "Sigmoid", nil, in)))
	}
	return b.loss(x)
}

// growing is a chain of n steps that make an expression of a dim grow. A step is given the
// activation so far and an input with a new symbol for its rows.
func growing(n int, step func(b *maker, i int, x, in graph.ValueID) graph.ValueID) *graph.Model {
	b := plain()
	x := b.input("rows", graph.Tensor(graph.Float32, graph.Dims(symbolic.Sym("r"), symbolic.Const(8))))
	x = b.one("", "Mul", nil, x, b.parameter("w", 8))
	for i := range n {
		in := b.input(fmt.Sprintf("in_%d", i),
			graph.Tensor(graph.Float32, graph.Dims(symbolic.Sym(fmt.Sprintf("s%d", i)), symbolic.Const(8))))
		x = step(b, i, x, in)
	}
	return b.loss(x)
}

// sumOfDims joins rows: r + s0 + s1 + ….
func sumOfDims(b *maker, _ int, x, in graph.ValueID) graph.ValueID {
	return b.one("", "Concat", []graph.Attr{num("axis", 0)}, x, in)
}

// productOfSums joins rows and multiplies their number: (r+s0)*(r+s0+s1)*… grows exponentially when
// it is multiplied out.
func productOfSums(b *maker, _ int, x, in graph.ValueID) graph.ValueID {
	joined := b.one("", "Concat", []graph.Attr{num("axis", 0)}, x, in)
	turned := b.one("", "Transpose", []graph.Attr{ints("perm", 1, 0)}, joined)
	square := b.one("", "MatMul", nil, b.one("", "MatMul", nil, x, turned), joined)
	flat := b.one("", "Reshape", nil, b.one("", "MatMul", nil, square, turned), b.constant([]int64{1}, -1))
	return b.one("", "Expand", nil, b.one("", "Unsqueeze", nil, flat, b.constant([]int64{1}, 1)),
		b.constant([]int64{2}, 1, 8))
}

// nestedFloors halves and joins rows: a floor within a floor within ….
func nestedFloors(b *maker, i int, x, in graph.ValueID) graph.ValueID {
	half := b.one("", "Slice", nil, x, b.constant([]int64{1}, 0), b.constant([]int64{1}, 1<<40),
		b.constant([]int64{1}, 0), b.constant([]int64{1}, int64(2+i%3)))
	return b.one("", "Concat", []graph.Attr{num("axis", 0)}, half, in)
}

// shapeChain reads a dim, computes with it and reshapes by it, n times over.
func shapeChain(n int) *graph.Model {
	b := newMaker(rand.New(rand.NewPCG(1, 1)), Options{Symbolic: true, Width: 8})
	x := b.one("", "Mul", nil, b.cur, b.parameter("w", 8))
	for range n {
		dims := b.one("", "Shape", nil, x)
		rows := b.one("", "Gather", nil, dims, b.constant([]int64{1}, 0))
		wide := b.one("", "Concat", []graph.Attr{num("axis", 0)}, rows, b.constant([]int64{2}, 4, 2))
		x = b.one("", "Reshape", nil, x, wide)
		x = b.one("", "Reshape",
			nil, x, b.one("", "Concat", []graph.Attr{num("axis", 0)}, rows, b.constant([]int64{1}, -1)))
		x = b.one("", "Sigmoid", nil, x)
	}
	return b.loss(x)
}

// manyViews is a chain of n views of one value that are all read.
func manyViews(n int) *graph.Model {
	b := plain()
	root := b.one("", "Sigmoid", nil, b.one("", "Mul", nil, b.cur, b.parameter("w", 8)))
	flat, back := b.constant([]int64{1}, -1), b.constant([]int64{2}, 4, 8)
	x, sum := root, root
	for range n {
		x = b.one("", "Reshape", nil, b.one("", "Reshape", nil, x, flat), back)
		sum = b.one("", "Mul", nil, sum, x)
	}
	return b.loss(sum)
}

// control is a chain of n If or Loop nodes.
func control(n int, kind string) *graph.Model {
	b := plain()
	for range n {
		if kind == "If" {
			b.cur = b.branches(b.cur, b.cur)
		} else {
			b.cur = b.iterations(b.cur, b.cur)
		}
	}
	return b.loss(b.cur)
}

// nested is an If in an If in an If, n deep.
func nested(n int) *graph.Model {
	b := plain()
	b.condition()
	return b.loss(b.deeper(n))
}

// deeper is an If of the given depth on the current value.
func (b *maker) deeper(n int) graph.ValueID {
	if n == 0 {
		return b.one("", "Sigmoid", nil, b.cur)
	}
	condition := b.condition()
	var branches []graph.Attr
	for _, name := range []string{"then_branch", "else_branch"} {
		in := b.sub(name)
		in.cur = in.outer(b.cur)
		depth := n - 1
		if name == "else_branch" {
			depth = 0
		}
		in.outer(condition)
		branches = append(branches, in.done(name, []graph.Type{b.act}, in.deeper(depth)))
	}
	return b.one("", "If", branches, condition)
}

// manyAttributes is a node with n attributes.
func manyAttributes(n int) *graph.Model {
	b := plain()
	attrs := make([]graph.Attr, n)
	for i := range attrs {
		attrs[i] = num(fmt.Sprintf("attribute_%d", i), int64(i))
	}
	return b.opaque(attrs...)
}

// manyStrings is a node with an attribute of n strings.
func manyStrings(n int) *graph.Model {
	b := plain()
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("string_%d", i)
	}
	return b.opaque(graph.Attr{Name: "list", Value: list})
}

// opaque is a small graph with a node of an unknown operator that has the given attributes.
func (b *maker) opaque(attrs ...graph.Attr) *graph.Model {
	b.output(b.one("some.domain", "Opaque", attrs, b.cur), b.act)
	return b.loss(b.one("", "Mul", nil, b.cur, b.parameter("w", 8)))
}

// manyMetadata has n entries of metadata in the model, in its graph and at a node.
func manyMetadata(n int) *graph.Model {
	b := plain()
	list := make([]graph.Property, n)
	for i := range list {
		list[i] = graph.Property{Key: fmt.Sprintf("key_%d", i), Value: "value"}
	}
	m := b.loss(b.one("", "Sigmoid", nil, b.cur))
	m.Metadata, m.Graph.Metadata = list, list
	m.Graph.Nodes[0].EditRare(func(r *graph.Rare) { r.Metadata = list })
	return m
}

// longName has a node and a value whose names have 10 n bytes.
func longName(n int) *graph.Model {
	b := plain()
	long := strings.Repeat("0123456789", n)
	node := &graph.Node{
		Name: long, Op: "Sigmoid", Inputs: []graph.ValueID{b.cur}, Outputs: []graph.ValueID{b.g.Value("v" + long)},
	}
	if err := b.g.AddNode(node); err != nil {
		panic("graphtest: " + err.Error())
	}
	return b.loss(b.one("", "Tanh", nil, node.Outputs[0]))
}

// function adds a function of one input and one output to a model.
func function(m *graph.Model, name string, body func(b *maker, x graph.ValueID) graph.ValueID) {
	b := plain()
	b.g = graph.New(name, nil)
	x := b.g.Value("x")
	b.g.Values[x].Input = true
	y := body(b, x)
	b.g.Values[y].Output = true
	if err := b.g.Seal(); err != nil {
		panic("graphtest: " + err.Error())
	}
	m.Functions = append(m.Functions,
		&graph.Function{Name: name, Domain: "local", Inputs: []graph.ValueID{x}, Outputs: []graph.ValueID{y}, Body: b.g,
			Opsets: []graph.Opset{{Version: 18}, {Domain: "local", Version: 1}}})
}

// calling is a model that calls a function so many times, one call behind the other.
func calling(name string, times int) *graph.Model {
	b := plain()
	x := b.cur
	for range times {
		x = b.one("local", name, nil, x)
	}
	m := b.loss(x)
	m.Opsets = append(m.Opsets, graph.Opset{Domain: "local", Version: 1})
	return m
}

// manyCalls calls a function n times.
func manyCalls(n int) *graph.Model {
	m := calling("f", n)
	function(m, "f", func(b *maker, x graph.ValueID) graph.ValueID {
		return b.one("", "Tanh", nil, b.one("", "Sigmoid", nil, x))
	})
	return m
}

// nestedCalls calls n functions, with calls among every 100 of them.
func nestedCalls(n int) *graph.Model {
	const depth = 100
	m := calling("f0", 1)
	for i := range n {
		function(m, fmt.Sprintf("f%d", i), func(b *maker, x graph.ValueID) graph.ValueID {
			if i%depth == depth-1 || i == n-1 {
				return b.one("", "Tanh", nil, x)
			}
			return b.one("", "Sigmoid", nil, b.one("local", fmt.Sprintf("f%d", i+1), nil, x))
		})
	}
	for i := depth; i < n; i += depth {
		g := m.Graph
		call := &graph.Node{Name: fmt.Sprintf("call_%d", i), Op: fmt.Sprintf("f%d", i), Domain: "local",
			Inputs:  []graph.ValueID{g.Nodes[0].Inputs[0]},
			Outputs: []graph.ValueID{g.Value(fmt.Sprintf("called_%d", i))}}
		if err := g.AddNode(call); err != nil {
			panic("graphtest: " + err.Error())
		}
	}
	return m
}

// doublingCalls has n functions that each call the next twice: 2^n nodes.
func doublingCalls(n int) *graph.Model {
	m := calling("f0", 1)
	for i := range n {
		function(m, fmt.Sprintf("f%d", i), func(b *maker, x graph.ValueID) graph.ValueID {
			if i == n-1 {
				return b.one("", "Tanh", nil, x)
			}
			next := fmt.Sprintf("f%d", i+1)
			return b.one("local", next, nil, b.one("local", next, nil, x))
		})
	}
	return m
}

// reversed is a chain whose file lists the last node first.
func reversed(n int) *graph.Model {
	m := Chain(n)
	nodes := make([]*graph.Node, 0, len(m.Graph.Nodes))
	for i := len(m.Graph.Nodes) - 1; i >= 0; i-- {
		nodes = append(nodes, m.Graph.Nodes[i])
	}
	m.Graph.SetNodes(nodes)
	return m
}

// GrowingLoops is a Loop in a Loop in a Loop, so many deep. Each carries a few values: one grows in
// every iteration while the others are those before it: their types settle one by one, and those
// inside once for every time.
func GrowingLoops(depth int) *graph.Model {
	b := plain()
	x := b.input("row", graph.Tensor(graph.Float32, graph.Ints(8)))
	return b.loss(b.growingLoop(depth, x))
}

func (b *maker) growingLoop(depth int, x graph.ValueID) graph.ValueID {
	const carried = 3
	row := graph.Tensor(graph.Float32, graph.Ints(8))
	flag := graph.Tensor(graph.Bool, graph.Dims())
	in := b.sub("loop")
	in.g.Name = fmt.Sprintf("loop_%d", depth)
	in.state("i", graph.Tensor(graph.Int64, graph.Dims()))
	goOn := in.state("condition", flag)
	start := in.outer(x)
	if depth > 1 {
		in.growingLoop(depth-1, start)
	}
	types := []graph.Type{flag}
	outputs := []graph.ValueID{in.one("", "Identity", nil, goOn)}
	inputs := []graph.ValueID{b.constant(nil, 3), graph.NoValue}
	last := graph.NoValue
	for i := range carried {
		s := in.state(fmt.Sprintf("s%d", i), graph.Type{Form: graph.FormTensor, DType: graph.Float32})
		if i == 0 {
			outputs = append(outputs, in.one("", "Concat", []graph.Attr{num("axis", 0)}, s, s))
		} else {
			outputs = append(outputs, in.one("", "Identity", nil, last))
		}
		last = s
		types, inputs = append(types, graph.Type{Form: graph.FormTensor, DType: row.DType}), append(inputs, x)
	}
	return b.add("", "Loop", carried, []graph.Attr{in.done("body", types, outputs...)}, inputs...)[0]
}
