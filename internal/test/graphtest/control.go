package graphtest

import (
	"memopt/graph"
	"memopt/symbolic"
)

// control appends an If, a Loop or a Scan. Their subgraphs, and those of their gradients, read
// activations of the graph around them.
func (b *maker) control() {
	pieces := []func(){b.branch, b.loop, b.scan}
	pieces[b.rng.IntN(len(pieces))]()
}

// sub starts a subgraph. Names in it begin with that of the node that will hold it, the next one.
func (b *maker) sub(name string) *maker {
	b.serial++
	in := *b
	in.g = graph.New(name, b.g)
	in.serial = b.serial << 20 // apart from the names in other graphs
	return &in
}

// outer is the value of a subgraph that stands for one of the graph around it.
func (b *maker) outer(v graph.ValueID) graph.ValueID { return b.g.Value(b.g.Outer.Values[v].Name) }

// state adds an input to a subgraph.
func (b *maker) state(name string, t graph.Type) graph.ValueID {
	return b.input(b.g.Name+"/"+name, t)
}

// done ends a subgraph: its outputs have the given types.
func (b *maker) done(name string, types []graph.Type, outputs ...graph.ValueID) graph.Attr {
	for i, v := range outputs {
		b.output(v, types[i])
	}
	if err := b.g.Seal(); err != nil {
		panic("graphtest: " + err.Error())
	}
	return graph.Attr{Name: name, Value: b.g}
}

// mix is a few elementwise nodes that end in x and other together, with values between -1 and 1.
func (b *maker) mix(x, other graph.ValueID) graph.ValueID {
	for range 1 + b.rng.IntN(3) {
		x = b.one("", "Mul", nil, x, other)
	}
	return b.one("", "Tanh", nil, x)
}

// earlier is an activation before the current one, for subgraphs to read.
func (b *maker) earlier() graph.ValueID { return b.past[b.rng.IntN(len(b.past))] }

// condition is the bool that all If nodes read, an input.
func (b *maker) condition() graph.ValueID {
	if id, ok := b.g.Lookup("condition"); ok {
		return id
	}
	return b.input("condition", graph.Tensor(graph.Bool, graph.Dims()))
}

// branches is an If on x: one branch mixes x with a saved value, the other reads x alone.
func (b *maker) branches(x, saved graph.ValueID) graph.ValueID {
	then := b.sub("then")
	a := then.done("then_branch", []graph.Type{b.act}, then.mix(then.outer(x), then.outer(saved)))
	els := b.sub("else")
	c := els.done("else_branch", []graph.Type{b.act}, els.one("", "Sigmoid", nil, els.outer(x)))
	return b.one("", "If", []graph.Attr{a, c}, b.condition())
}

func (b *maker) branch() {
	x, saved := b.cur, b.earlier()
	b.push(b.branches(x, saved), func(g graph.ValueID) graph.ValueID { return b.branches(g, x) })
}

// iterations is a Loop of a few iterations that starts from x and reads a saved value in each.
func (b *maker) iterations(x, saved graph.ValueID) graph.ValueID {
	in := b.sub("loop_" + b.g.ValueName(x))
	scalar := graph.Tensor(graph.Int64, graph.Dims())
	flag := graph.Tensor(graph.Bool, graph.Dims())
	in.state("i", scalar)
	goOn, s := in.state("condition", flag), in.state("state", b.act)
	body := in.done("body", []graph.Type{flag, b.act}, in.one("", "Identity", nil, goOn), in.mix(s, in.outer(saved)))
	return b.one("", "Loop", []graph.Attr{body}, b.constant(nil, int64(1+b.rng.IntN(3))), graph.NoValue, x)
}

func (b *maker) loop() {
	x, saved := b.cur, b.earlier()
	b.push(b.iterations(x, saved), func(g graph.ValueID) graph.ValueID { return b.iterations(g, x) })
}

// rows is a Scan over the rows of x, and of a saved value beside it: its state is their running
// mean, its output a row for each.
func (b *maker) rows(x, saved graph.ValueID) graph.ValueID {
	row := graph.Tensor(graph.Float32, graph.Dims(symbolic.Const(b.width)))
	start := b.one("", "ReduceMean", []graph.Attr{ints("axes", 0), num("keepdims", 0)}, x)
	in := b.sub("scan_" + b.g.ValueName(x))
	s, slice, beside := in.state("state", row), in.state("row", row), in.state("beside", row)
	mixed := in.mix(slice, beside)
	next := in.one("", "Tanh", nil, in.one("", "Add", nil, s, mixed))
	body := in.done("body", []graph.Type{row, row}, next, in.one("", "Add", nil, mixed, s))
	return b.add("", "Scan", 2, []graph.Attr{body, num("num_scan_inputs", 2)}, start, x, saved)[1]
}

func (b *maker) scan() {
	x, saved := b.cur, b.earlier()
	b.push(b.rows(x, saved), func(g graph.ValueID) graph.ValueID { return b.rows(g, x) })
}
