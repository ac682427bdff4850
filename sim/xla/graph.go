package xla

import (
	"encoding/json"
	"fmt"

	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/hlo"
	"memopt/graph/live"
	"memopt/graph/op"
)

// InstructionAttr is the attribute of a node with the instruction's name in the module.
const InstructionAttr = "instruction"

// Graph is the program as a graph that is planned and not executed: a node for each step that makes memory or is the
// last to read it, in the order of the schedule, and a value for each range of a buffer. The live bytes at each node
// are those of the heap at its step. Arguments are inputs, and so is the memory of results, which the program has
// throughout; a value that lies in it, or in a donated argument, has no bytes of its own.
func (p *Program) Graph() (*graph.Model, error) {
	b := &builder{Program: p, g: graph.New(p.Module.Name, nil), taken: map[string]int{}, nodes: map[string]int{},
		products: map[int32]float64{},
		values:   make([][]graph.ValueID, len(p.Buffers))}
	for i := range p.Buffers {
		if err := b.held(int32(i)); err != nil {
			return nil, err
		}
	}
	b.holders()
	b.again = p.repeatable()
	for s := range p.Steps {
		if err := b.step(int32(s)); err != nil {
			return nil, err
		}
	}
	return b.model()
}

// builder makes the graph.
type builder struct {
	*Program
	g        *graph.Graph
	taken    map[string]int    // by name: how many values have asked for it
	nodes    map[string]int    // likewise of nodes
	values   [][]graph.ValueID // by buffer and span; of arguments and results one value
	begins   [][]place         // by step: the ranges that begin there
	ends     [][]place         // by step: the ranges that end there
	again    []bool            // by step: it may run a second time
	products map[int32]float64 // by computation: the operations of its products
	tags     []int8            // by node: 1 of the backward half, -1 of the forward half, 0 not said
	fullest  int               // the first node at the peak or behind it
}

// place is a range of a buffer.
type place struct{ buffer, span int32 }

func bytesType(n int64) graph.Type { return graph.Tensor(graph.Uint8, graph.Ints(n)) }

// unique makes a name that no other has asked for.
func unique(taken map[string]int, name string) string {
	if taken[name]++; taken[name] == 1 {
		return name
	}
	for {
		next := fmt.Sprintf("%s #%d", name, taken[name])
		if taken[next] == 0 {
			taken[next] = 1
			return next
		}
		taken[name]++
	}
}

// value adds a value.
func (b *builder) value(name string, bytes int64) graph.ValueID {
	v := b.g.Value(unique(b.taken, name))
	b.g.Values[v].Type = bytesType(bytes)
	b.g.ValueInfo = append(b.g.ValueInfo, graph.Decl{Value: v, Type: bytesType(bytes)})
	return v
}

// label is the name of a buffer's values.
func (b *builder) label(i int32) string {
	buf := &b.Buffers[i]
	name := b.bufferLabel(i)
	for _, k := range buf.Element {
		name += fmt.Sprintf("[%d]", k)
	}
	return name
}

// held makes the values of a buffer: inputs for arguments and results.
func (b *builder) held(i int32) error {
	buf := &b.Buffers[i]
	name, own := b.label(i), buf.Bytes
	if buf.Host {
		own = 0
	}
	switch buf.Role {
	case Constant:
		return nil
	case Argument, Donated:
		v := b.value(name, own)
		b.values[i] = []graph.ValueID{v}
		if err := b.g.AddInput(graph.Decl{Value: v, Type: bytesType(own)}); err != nil {
			return err
		}
	}
	switch {
	case buf.Role == Argument:
		return nil
	case buf.Role == Result:
		if buf.Within < 0 {
			v := b.value("memory of the result "+name, own)
			if err := b.g.AddInput(graph.Decl{Value: v, Type: bytesType(own)}); err != nil {
				return err
			}
		}
		own = 0
	case buf.Role == Donated, buf.Within >= 0:
		own = 0
	}
	for len(b.values[i]) < len(buf.Spans) {
		b.values[i] = append(b.values[i], b.value(name, own))
	}
	return nil
}

// holders lists the ranges that begin and end at each step.
func (b *builder) holders() {
	b.begins, b.ends = make([][]place, len(b.Steps)+1), make([][]place, len(b.Steps)+1)
	for i := range b.Buffers {
		buf := &b.Buffers[i]
		if buf.Role == Constant || buf.Role == Argument {
			continue
		}
		for k, s := range buf.Spans {
			if k > 0 || buf.Role != Donated { // else it is an input
				b.begins[s.From] = append(b.begins[s.From], place{int32(i), int32(k)})
			}
			b.ends[s.To] = append(b.ends[s.To], place{int32(i), int32(k)})
		}
	}
}

// at is the value that a buffer has before a step; NoValue without one.
func (b *builder) at(i, step int32) graph.ValueID {
	buf := &b.Buffers[i]
	if buf.Role == Constant || len(b.values[i]) == 0 {
		return graph.NoValue
	}
	if buf.Role == Argument {
		return b.values[i][0]
	}
	k, _ := slices.BinarySearchFunc(buf.Spans, step, func(s Span, at int32) int { return int(s.From) - int(at) })
	if k == 0 || buf.Spans[k-1].To < step {
		return graph.NoValue
	}
	return b.values[i][k-1]
}

// step adds the node of a step, if it makes a range or ends one.
func (b *builder) step(s int32) error {
	step := &b.Steps[s]
	in := step.In()
	if len(b.begins[s]) == 0 && len(b.ends[s]) == 0 || in.Opcode == "parameter" {
		return nil
	}
	n := &graph.Node{Name: unique(b.nodes, b.Label(s)), Op: in.Opcode}
	n.SetAttr(InstructionAttr, in.Name)
	if flops := b.flops(step.Computation, in); flops > 0 {
		n.SetAttr(op.FLOPsAttr, flops)
	}
	seen := map[graph.ValueID]bool{}
	read := func(v graph.ValueID) {
		if v != graph.NoValue && !seen[v] {
			seen[v] = true
			n.Inputs = append(n.Inputs, v)
		}
	}
	// The value that is written over is the first input, and the one that is written there the first output.
	begins := b.begins[s]
	over := slices.IndexFunc(begins, func(x place) bool { return b.Buffers[x.buffer].Over >= 0 })
	if over >= 0 {
		begins = slices.Clone(begins)
		begins[0], begins[over] = begins[over], begins[0]
		from := b.Buffers[begins[0].buffer].Over
		read(b.at(from, s))
	}
	operand := func(o int32) {
		first := step.frame.first[o]
		for j := range b.layout.width(&step.Computation.Instructions[o].Shape) {
			read(b.at(b.buffer[first+j], s))
		}
	}
	for _, o := range in.Operands {
		operand(o)
		if !step.frame.isFused(step.Instruction) {
			for _, l := range step.frame.leaves(o) {
				operand(l)
			}
		}
	}
	for _, x := range b.ends[s] {
		if b.Buffers[x.buffer].Spans[x.span].From < s {
			read(b.values[x.buffer][x.span])
		}
	}
	for _, x := range begins {
		if v := b.values[x.buffer][x.span]; !seen[v] {
			n.Outputs = append(n.Outputs, v)
		}
	}
	if len(n.Outputs) == 0 && len(n.Inputs) == 0 {
		return nil
	}
	n.Domain = b.domain(s, over >= 0)
	tag := int8(0)
	if hlo.HalfOf(in.OpName) != hlo.Forward {
		tag = 1
	} else if strings.Contains(in.OpName, "jvp(") {
		tag = -1
	}
	b.tags = append(b.tags, tag)
	if s < b.Peak {
		b.fullest = len(b.tags)
	}
	return b.g.AddNode(n)
}

// domain is that of a step's node, which says whether it may run again and works in place.
func (b *builder) domain(s int32, inPlace bool) string {
	again := b.again[s]
	switch {
	case again && inPlace:
		return op.DomainXLAInPlace
	case again:
		return op.DomainXLA
	case inPlace:
		return op.DomainXLAOnceInPlace
	}
	return op.DomainXLAOnce
}

// flops are the floating-point operations of the products in an instruction, and one for each element of a result.
func (b *builder) flops(c *hlo.Computation, in *hlo.Instruction) int64 {
	n := elements(&in.Shape) + products(c, in)
	if in.Opcode == "fusion" {
		for _, k := range in.Called {
			body, known := b.products[k]
			if !known {
				c := b.Module.Computations[k]
				for i := range c.Instructions {
					body += products(c, &c.Instructions[i])
				}
				b.products[k] = body
			}
			n += body
		}
	}
	return int64(min(n, 1<<60))
}

// products are the floating-point operations of a dot or a convolution; 0 of other instructions.
func products(c *hlo.Computation, in *hlo.Instruction) float64 {
	if in.Opcode != "dot" && in.Opcode != "convolution" || len(in.Operands) < 2 {
		return 0
	}
	left, right := &c.Instructions[in.Operands[0]].Shape, &c.Instructions[in.Operands[1]].Shape
	n := 2 * elements(&in.Shape)
	if in.Opcode == "convolution" {
		n *= elements(right)
		if k := in.Features; k >= 0 && k < int64(len(right.Dims)) {
			n /= float64(max(1, right.Dims[k]))
		}
		return n
	}
	for _, d := range in.Contracting {
		if d >= 0 && d < int64(len(left.Dims)) {
			n *= float64(left.Dims[d])
		}
	}
	return n
}

// elements is how many numbers a value has.
func elements(s *hlo.Shape) float64 {
	if s.IsTuple() {
		n := 0.0
		for i := range s.Tuple {
			n += elements(&s.Tuple[i])
		}
		return n
	}
	n := 1.0
	for _, d := range s.Dims {
		n *= float64(d)
	}
	return n
}

// model ends the graph: results are its outputs.
func (b *builder) model() (*graph.Model, error) {
	for i := range b.Buffers {
		buf := &b.Buffers[i]
		if buf.Role != Result && buf.Role != Donated || len(b.values[i]) == 0 {
			continue
		}
		v := b.values[i][len(b.values[i])-1]
		if b.g.Values[v].Def == graph.NoNode {
			continue
		}
		if err := b.g.AddOutput(graph.Decl{Value: v, Type: b.g.Values[v].Type}); err != nil {
			return nil, err
		}
	}
	if err := b.g.Seal(); err != nil {
		return nil, err
	}
	m := &graph.Model{IRVersion: 10, ProducerName: "XLA", Graph: b.g, Opsets: []graph.Opset{{Version: 20}}}
	for _, domain := range []string{op.DomainXLA, op.DomainXLAInPlace, op.DomainXLAOnce, op.DomainXLAOnceInPlace} {
		m.Opsets = append(m.Opsets, graph.Opset{Domain: domain, Version: 1})
	}
	live.RecordStates(m, nil)
	record := live.Recorded{Schema: live.RecordedSchema, Kind: string(live.RecordedBoundary)}
	begin := b.backward()
	if b.Marked = begin > 0; !b.Marked {
		begin = b.fullest
	}
	for _, n := range b.g.Nodes[:begin] {
		if len(n.Outputs) > 0 {
			record.Loss, record.Node = b.g.ValueName(n.Outputs[0]), n.Name
		}
	}
	if record.Loss == "" || begin == len(b.g.Nodes) {
		return m, nil
	}
	record.Backward = b.g.Nodes[begin].Name
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	m.SetMeta(live.BoundaryKey, string(text))
	return m, nil
}

// backward is the first node of the backward half, 0 without one: the schedule may have a node of either half among
// those of the other, so it is the place with the fewest nodes on the wrong side.
func (b *builder) backward() int {
	wrong, least, at := 0, 0, 0 // as if the backward half began with the first node
	found := false
	for i, tag := range b.tags {
		if tag > 0 && (!found || wrong < least) {
			least, at, found = wrong, i, true
		}
		wrong += int(tag)
	}
	return at
}
