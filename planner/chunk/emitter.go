package chunk

import (
	"fmt"
	"slices"
	"strconv"

	"memopt/graph"
	"memopt/graph/op"
)

// emitter writes the stages of one region.
type emitter struct {
	*writer
	region *region
	number int32
	starts []int64
	stage  []int    // by item
	rules  []*along // by node of the whole graph; nil outside the region
	used   []bool   // by value: it is needed as a whole
	out    []item
	// parted has the parts of values: of those that the region's nodes make, for all stages; slices
	// are made anew in each stage.
	parted  map[graph.ValueID][]graph.ValueID
	sliced  map[graph.ValueID][]graph.ValueID
	merged  map[graph.ValueID]graph.ValueID // values whose first dims are one
	divided map[graph.ValueID]graph.ValueID // gradients of means, divided by the number of labels
	part    int
	now     int // the stage at hand
}

// writeStage writes a stage, part by part, and then the nodes that join its parts.
func (e *emitter) writeStage(s int) error {
	e.now = s
	var list []int
	for i := range e.items {
		if e.stage[i] == s {
			list = append(list, i)
		}
	}
	e.sliced = map[graph.ValueID][]graph.ValueID{}
	e.merged, e.divided = map[graph.ValueID]graph.ValueID{}, map[graph.ValueID]graph.ValueID{}
	sums := map[graph.ValueID]graph.ValueID{}
	for e.part = 0; e.part < len(e.starts)-1; e.part++ {
		for _, i := range list {
			if err := e.writePart(&e.items[i], sums); err != nil {
				return err
			}
		}
	}
	for _, i := range list {
		it := &e.items[i]
		a := e.ruleOf(it.origin)
		for slot, v := range it.node.Outputs {
			switch {
			case v == graph.NoValue:
			case a.out[slot].cut() && e.used[v]:
				e.join(v, e.parted[v], a.out[slot], e.dims[v])
			case e.joined(it.node, a) && !a.out[slot].cut():
				e.joinLosses(it.node, a, v)
			}
		}
	}
	return nil
}

// prepare notes how the region's nodes fall into parts, and which values they need as a whole.
func (e *emitter) prepare() {
	e.rules = make([]*along, len(e.g.Nodes))
	for i, id := range e.region.nodes {
		e.rules[id] = e.region.along[i]
		for slot, v := range e.g.Nodes[id].Inputs {
			if v != graph.NoValue && !e.rules[id].in[slot].cut() && !e.isDims(e.g.Nodes[id], slot) {
				e.used[v] = true
			}
		}
	}
}

func (e *emitter) ruleOf(id graph.NodeID) *along { return e.rules[id] }

// isDims reports whether an input of a node is the shape of its output: parts have shapes of their
// own.
func (e *emitter) isDims(n *graph.Node, slot int) bool {
	return slices.Contains(op.Of(n.Kind).Shapes, slot)
}

// writePart writes one part of a node.
func (e *emitter) writePart(it *item, sums map[graph.ValueID]graph.ValueID) error {
	n, a := it.node, e.ruleOf(it.origin)
	c := e.copyOf(n)
	for slot, v := range n.Inputs {
		var err error
		if c.Inputs[slot], err = e.input(n, a, slot, v); err != nil {
			return err
		}
	}
	if op.Of(n.Kind).Random {
		if err := e.setDraws(c, n.Output(0), a.out[0]); err != nil {
			return fmt.Errorf("node %q: %w", e.nodeName(n), err)
		}
	}
	m := meanOf(n)
	if m != nil && m.gradient {
		c.SetAttr("reduction", "sum")
		c.Inputs[0] = e.dividedGradient(n, m)
	} else if e.joined(n, a) {
		c.SetAttr("reduction", "none")
	}
	var adds []*graph.Node
	for slot, v := range n.Outputs {
		switch {
		case v == graph.NoValue:
			c.Outputs[slot] = v
		case a.out[slot].cut(), e.joined(n, a):
			c.Outputs[slot] = e.newPart(v)
		default:
			add, err := e.sum(n, c, a, slot, sums)
			if err != nil {
				return err
			}
			adds = append(adds, add...)
		}
	}
	e.emit(c, it.origin)
	for _, add := range adds {
		e.emit(add, graph.NoNode)
	}
	return nil
}

// setDraws lets this part of a random node draw the same numbers as the whole draws for its
// elements. v is the output that it is cut by.
func (e *emitter) setDraws(c *graph.Node, v graph.ValueID, p place) error {
	d := e.dims[v]
	row := p.inner * product(d[p.dim+1:])
	from, to := e.starts[e.part]*row, e.starts[e.part+1]*row
	if p.merge || product(d[:p.dim]) == 1 {
		return op.SetDrawFrom(c, e.g.Values[v].Name, from)
	}
	return op.SetDrawRuns(c, e.g.Values[v].Name, from, to-from, e.region.rows*row)
}

// copyOf returns a node for a part of another one.
func (e *emitter) copyOf(n *graph.Node) *graph.Node {
	c := &graph.Node{Name: e.names.Node(e.nodeName(n) + e.suffix()), Op: n.Op, Domain: n.Domain, Kind: n.Kind,
		Version: n.Version, Inputs: slices.Clone(n.Inputs), Outputs: slices.Clone(n.Outputs),
		Attrs: slices.Clone(n.Attrs)}
	rare := n.Rare()
	c.SetRare(graph.Rare{Overload: rare.Overload, Doc: rare.Doc, Metadata: slices.Clone(rare.Metadata),
		Devices: rare.Devices, Extra: rare.Extra})
	return c
}

func (e *emitter) nodeName(n *graph.Node) string {
	if n.Name != "" {
		return n.Name
	}
	return e.g.ValueName(
		n.Outputs[slices.IndexFunc(n.Outputs, func(v graph.ValueID) bool { return v != graph.NoValue })])
}

func (e *emitter) suffix() string { return "_part" + strconv.Itoa(e.part) }

// newValue adds a value.
func (e *emitter) newValue(name string, dims []int64) graph.ValueID {
	v := e.g.Value(e.names.Value(name))
	for len(e.dims) <= int(v) {
		e.dims = append(e.dims, nil)
	}
	e.dims[v] = dims
	e.added = append(e.added, v)
	return v
}

// newPart adds the value that is this part of another one.
func (e *emitter) newPart(v graph.ValueID) graph.ValueID {
	p := e.newValue(e.g.Values[v].Name+e.suffix(), nil)
	e.parted[v] = append(e.parted[v], p)
	return p
}

func (e *emitter) emit(n *graph.Node, origin graph.NodeID) {
	e.out = append(e.out, item{n, origin, Part{e.number, int32(e.part)}, e.now})
}

// node emits a node of ONNX's own domain with one output.
func (e *emitter) node(name, what string, attrs []graph.Attr, dims []int64, in ...graph.ValueID) graph.ValueID {
	v := e.newValue(name, dims)
	e.nodeInto(v, what, attrs, in...)
	return v
}

func (e *emitter) nodeInto(v graph.ValueID, what string, attrs []graph.Attr, in ...graph.ValueID) {
	e.emit(&graph.Node{Name: e.names.Node(e.g.Values[v].Name + "/" + what), Op: what,
		Kind: op.Lookup("", what), Inputs: in,
		Outputs: []graph.ValueID{v}, Attrs: attrs}, graph.NoNode)
}

// input returns the value that a part of a node reads in place of an input.
func (e *emitter) input(n *graph.Node, a *along, slot int, v graph.ValueID) (graph.ValueID, error) {
	switch {
	case v == graph.NoValue:
		return v, nil
	case e.isDims(n, slot) && a.out[0].cut():
		return e.vector(e.partDims(e.dims[n.Output(0)], a.out[0])), nil
	case !a.in[slot].cut():
		return v, nil
	}
	if parts := e.parted[v]; parts != nil {
		return parts[e.part], nil
	}
	return e.slice(v, a.in[slot]), nil
}

// partDims are the dims of this part of a value.
func (e *emitter) partDims(d []int64, p place) []int64 {
	out := slices.Clone(d)
	if p.merge {
		for i := range p.dim {
			out[i] = 1
		}
	}
	out[p.dim] = (e.starts[e.part+1] - e.starts[e.part]) * p.inner
	return out
}

// slice returns this part of a value that is there as a whole.
func (e *emitter) slice(v graph.ValueID, p place) graph.ValueID {
	parts := e.sliced[v]
	if parts == nil {
		parts = slices.Repeat([]graph.ValueID{graph.NoValue}, len(e.starts)-1)
		e.sliced[v] = parts
	}
	if parts[e.part] != graph.NoValue {
		return parts[e.part]
	}
	from := e.merge(v, p)
	lo, hi := e.starts[e.part]*p.inner, e.starts[e.part+1]*p.inner
	name := e.g.Values[v].Name + "_slice" + strconv.Itoa(e.part)
	in, attrs := e.sliceOperands(from, lo, hi, int64(p.dim))
	parts[e.part] = e.node(name, "Slice", attrs, e.partDims(e.dims[v], p), in...)
	return parts[e.part]
}

// sliceInputs is the operator set since which Slice takes its range as inputs; before, it has
// attributes.
const sliceInputs = 10

// sliceOperands are the inputs and the attributes of a Slice of a range of a dim.
func (e *emitter) sliceOperands(v graph.ValueID, lo, hi, dim int64) ([]graph.ValueID, []graph.Attr) {
	if graph.OpsetVersion(e.opsets, "") < sliceInputs {
		return []graph.ValueID{v}, []graph.Attr{{Name: "starts", Value: []int64{lo}},
			{Name: "ends", Value: []int64{hi}}, {Name: "axes", Value: []int64{dim}}}
	}
	return []graph.ValueID{v, e.vector([]int64{lo}), e.vector([]int64{hi}), e.vector([]int64{dim})}, nil
}

// merge returns a value whose dims before that of a place are 1: a view.
func (e *emitter) merge(v graph.ValueID, p place) graph.ValueID {
	if !p.merge {
		return v
	}
	if m, ok := e.merged[v]; ok {
		return m
	}
	d := e.mergedDims(e.dims[v], p)
	m := e.node(e.g.Values[v].Name+"_rows", "Reshape", nil, d, v, e.vector(d))
	e.merged[v] = m
	return m
}

func (e *emitter) mergedDims(d []int64, p place) []int64 {
	out := slices.Clone(d)
	out[p.dim] = product(d[:p.dim+1])
	for i := range p.dim {
		out[i] = 1
	}
	return out
}

// join makes a value of its parts, which are written in place.
func (e *emitter) join(v graph.ValueID, parts []graph.ValueID, p place, d []int64) {
	e.part = len(e.starts) - 2
	axis := []graph.Attr{{Name: "axis", Value: int64(p.dim)}}
	if !p.merge {
		e.nodeInto(v, "Concat", axis, parts...)
		return
	}
	rows := e.node(e.g.Values[v].Name+"_rows", "Concat", axis, e.mergedDims(d, p), parts...)
	e.nodeInto(v, "Reshape", nil, rows, e.vector(d))
}

// sum accumulates an output over the parts: the node itself accumulates onto the sum so far if it
// can, else its result is added to it.
func (e *emitter) sum(
	n, c *graph.Node, a *along, slot int, sums map[graph.ValueID]graph.ValueID,
) ([]*graph.Node, error) {
	v := n.Outputs[slot]
	name := e.g.Values[v].Name
	to := v
	if e.part < len(e.starts)-2 {
		to = e.newValue(name+"_sum"+strconv.Itoa(e.part), e.dims[v])
	}
	prev, begun := sums[v]
	sums[v] = to
	if !begun {
		c.Outputs[slot] = to
		return nil, nil
	}
	if e.goesOn(n) {
		e.goOn(n, c, prev)
		c.Outputs[slot] = to
		return nil, nil
	}
	if len(a.once) > 0 {
		return nil, fmt.Errorf("node %q has an input that one part alone may have", e.nodeName(n))
	}
	term := e.newValue(name+e.suffix(), e.dims[v])
	c.Outputs[slot] = term
	return []*graph.Node{{Name: e.names.Node(e.g.Values[to].Name + "/Add"), Op: "Add", Kind: op.Lookup("", "Add"),
		Inputs: []graph.ValueID{prev, term}, Outputs: []graph.ValueID{to}}}, nil
}

// vector is a constant int64 vector.
func (w *writer) vector(list []int64) graph.ValueID {
	key := fmt.Sprint(list)
	if v, ok := w.vectors[key]; ok {
		return v
	}
	v := w.constant(graph.Int64Tensor("", []int64{int64(len(list))}, list...), []int64{int64(len(list))})
	w.vectors[key] = v
	return v
}

// constant adds an initializer.
func (w *writer) constant(t *graph.TensorData, dims []int64) graph.ValueID {
	t.Name = w.names.Value("fission_constant")
	v, err := w.g.AddInitializer(t)
	if err != nil {
		panic("chunk: a new name is taken: " + err.Error())
	}
	for len(w.dims) <= int(v) {
		w.dims = append(w.dims, nil)
	}
	w.dims[v] = dims
	return v
}
