package onnx

import (
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
	"memopt/internal/memlimit"
)

// each calls f for every field of a message.
func (r reader) each(do func(*field) error) error {
	var f field
	for {
		more, err := r.next(&f)
		if !more || err != nil {
			return err
		}
		if err := do(&f); err != nil {
			return err
		}
	}
}

// graph reads a GraphProto. It walks the graph's own fields four times, because
// a value's maker must be known before its other roles and a file may list
// them in any order; a walk only skips from field to field.
func (d *decoder) graph(r reader, outer *graph.Graph) (*graph.Graph, error) {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > MaxDepth {
		return nil, &depthError{at(r.pos, "graphs are nested more than %d deep", MaxDepth)}
	}
	g := graph.New("", outer)
	size := 0
	walks := []func(*field) error{
		func(f *field) error { return d.graphHead(g, f, &size) },
		func(f *field) error { return d.graphInitializers(g, f) },
		func(f *field) error { return d.graphNode(g, f, graphNode) },
		func(f *field) error { return d.graphDecls(g, f) },
	}
	for i, walk := range walks {
		if err := r.each(walk); err != nil {
			return nil, err
		}
		if i == 0 {
			reserve(g, size, len(r.rest))
		}
	}
	return g, g.Seal()
}

// reserve makes room for nodes, but never more than their bytes can fill.
func reserve(g *graph.Graph, nodes, size int) {
	const smallest = 8 // bytes of a node with an operator and one output
	if n := min(nodes, size/smallest); n > len(g.Values) {
		g.Reserve(n, n+len(g.Values))
	}
}

// graphHead reads everything but initializers, nodes, outputs and value_info.
func (d *decoder) graphHead(g *graph.Graph, f *field, nodes *int) error {
	switch f.num {
	case graphNode:
		*nodes++
	case graphName:
		return text(f, "GraphProto.name", &g.Name, &g.Extra)
	case graphDoc:
		return text(f, "GraphProto.doc_string", &g.Doc, &g.Extra)
	case graphInput:
		decl, err := d.decl(g, f, "input", len(g.Inputs))
		if err != nil {
			return err
		}
		return g.AddInput(decl)
	case graphMetadata:
		return metadata(f, &g.Metadata)
	case graphInitializer, graphSparse, graphOutput, graphValueInfo:
	default:
		keep(&g.Extra, f)
	}
	return nil
}

func (d *decoder) graphInitializers(g *graph.Graph, f *field) error {
	switch f.num {
	case graphInitializer:
		r, err := f.sub("GraphProto.initializer")
		if err != nil {
			return err
		}
		t, err := d.tensor(r)
		if err != nil {
			return fmt.Errorf("initializer %d: %w", len(g.Initializers), err)
		}
		_, err = g.AddInitializer(t)
		return err
	case graphSparse:
		r, err := f.sub("GraphProto.sparse_initializer")
		if err != nil {
			return err
		}
		s, err := d.sparse(r)
		if err != nil {
			return fmt.Errorf("sparse initializer %d: %w", len(g.Sparse), err)
		}
		_, err = g.AddSparse(s)
		return err
	}
	return nil
}

func (d *decoder) graphDecls(g *graph.Graph, f *field) error {
	switch f.num {
	case graphOutput:
		decl, err := d.decl(g, f, "output", len(g.Outputs))
		if err != nil {
			return err
		}
		return g.AddOutput(decl)
	case graphValueInfo:
		return d.valueInfo(g, f)
	}
	return nil
}

func (d *decoder) valueInfo(g *graph.Graph, f *field) error {
	decl, err := d.decl(g, f, "value_info", len(g.ValueInfo))
	if err != nil {
		return err
	}
	g.ValueInfo = append(g.ValueInfo, decl)
	if v := &g.Values[decl.Value]; v.Type.Form == graph.FormUnknown {
		v.Type = decl.Type
	}
	return nil
}

// value returns the value of the given name. It copies the name only when
// the graph does not have it yet: models name every value several times.
func value(g *graph.Graph, name []byte) graph.ValueID {
	if len(name) == 0 {
		return graph.NoValue
	}
	// Lookup does not keep its argument, so it may look at the file's bytes.
	if id, ok := g.Lookup(unsafe.String(&name[0], len(name))); ok {
		return id
	}
	return g.Value(string(name))
}

// graphNode reads the node in the field with the given number, if f is it.
func (d *decoder) graphNode(g *graph.Graph, f *field, num protowire.Number) error {
	if f.num != num {
		return nil
	}
	r, err := f.sub("NodeProto")
	if err != nil {
		return err
	}
	n, err := d.newNode()
	if err != nil {
		return err
	}
	attrs, err := d.nodeHead(g, n, r)
	if err == nil && n.Op == "" {
		err = fmt.Errorf("op_type is missing")
	}
	if err == nil && attrs > 0 {
		err = d.nodeAttrs(g, n, r, attrs)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", nodeTitle(n, len(g.Nodes)), err)
	}
	return g.AddNode(n)
}

// nodeTitle names a node that is not in its graph yet.
func nodeTitle(n *graph.Node, index int) string {
	switch {
	case n.Op == "":
		return fmt.Sprintf("%q (number %d of its graph)", n.Name, index)
	case n.Name == "":
		return fmt.Sprintf("\"%s#%d\"", n.Op, index)
	}
	return fmt.Sprintf("%q (%s)", n.Name, n.Op)
}

// nodeHead reads everything but the attributes and returns their number.
func (d *decoder) nodeHead(g *graph.Graph, n *graph.Node, r reader) (attrs int, err error) {
	d.in, d.out, d.rare = d.in[:0], d.out[:0], graph.Rare{}
	var f field
	for {
		more, err := r.next(&f)
		if err != nil {
			return attrs, err
		}
		if !more {
			break
		}
		switch f.num {
		case nodeInput:
			err = operand(g, &f, "NodeProto.input", &d.in)
		case nodeOutput:
			err = operand(g, &f, "NodeProto.output", &d.out)
		case nodeName:
			err = text(&f, "NodeProto.name", &n.Name, &d.rare.Extra)
		case nodeOp:
			err = d.label(&f, "NodeProto.op_type", &n.Op, &d.rare.Extra)
		case nodeAttribute:
			attrs++
		case nodeDoc:
			err = text(&f, "NodeProto.doc_string", &d.rare.Doc, &d.rare.Extra)
		case nodeDomain:
			err = d.label(&f, "NodeProto.domain", &n.Domain, &d.rare.Extra)
		case nodeOverload:
			err = d.label(&f, "NodeProto.overload", &d.rare.Overload, &d.rare.Extra)
		case nodeMetadata:
			err = metadata(&f, &d.rare.Metadata)
		case nodeDevices:
			err = d.devices(&f, &d.rare.Devices)
		default:
			keep(&d.rare.Extra, &f)
		}
		if err != nil {
			return attrs, err
		}
	}
	n.Inputs, n.Outputs = d.list(d.in), d.list(d.out)
	n.SetRare(d.rare)
	g.ResolveShardings(n)
	return attrs, nil
}

func operand(g *graph.Graph, f *field, what string, list *[]graph.ValueID) error {
	name, err := f.bytes(what)
	if err != nil {
		return err
	}
	*list = append(*list, value(g, name))
	return nil
}

// Blocks bound the allocation ahead of the data.
const (
	nodeBlock = 128
	idBlock   = 1024
)

// nodeBytes is the least memory of a node, with its values and the notes of later passes, however
// few bytes of the file it is.
const nodeBytes = 1024

// newNode takes a node from a block.
func (d *decoder) newNode() (*graph.Node, error) {
	if len(d.nodes) == 0 {
		if err := memlimit.Check(nodeBlock*nodeBytes, "the model's nodes"); err != nil {
			return nil, err
		}
		d.nodes = make([]graph.Node, nodeBlock)
	}
	n := &d.nodes[0]
	d.nodes = d.nodes[1:]
	return n, nil
}

// list copies operands into a block; appending to the result makes a copy.
func (d *decoder) list(ids []graph.ValueID) []graph.ValueID {
	if len(ids) == 0 {
		return nil
	}
	if len(ids) > len(d.ids) {
		d.ids = make([]graph.ValueID, max(idBlock, len(ids)))
	}
	n := copy(d.ids, ids)
	part := d.ids[:n:n]
	d.ids = d.ids[n:]
	return part
}

// function reads a FunctionProto.
func (d *decoder) function(f *field) (*graph.Function, error) {
	r, err := f.sub("ModelProto.functions")
	if err != nil {
		return nil, err
	}
	fn := &graph.Function{Body: graph.New("", nil), Wire: f.body}
	walks := []func(*field) error{
		func(f *field) error { return d.functionHead(fn, f) },
		func(f *field) error { return d.graphNode(fn.Body, f, funcNode) },
		func(f *field) error { return d.functionDecls(fn, f) },
	}
	for _, walk := range walks {
		if err := r.each(walk); err != nil {
			return nil, fmt.Errorf("%q: %w", fn.Name, err)
		}
		fn.Body.Name = fn.Name
	}
	if fn.Name == "" {
		return nil, fmt.Errorf("it has no name")
	}
	if err := fn.Body.Seal(); err != nil {
		return nil, fmt.Errorf("%q: %w", fn.Name, err)
	}
	return fn, nil
}

func (d *decoder) functionHead(fn *graph.Function, f *field) error {
	var unused []byte // presence survives in Wire
	switch f.num {
	case funcName:
		return text(f, "FunctionProto.name", &fn.Name, &unused)
	case funcDomain:
		return text(f, "FunctionProto.domain", &fn.Domain, &unused)
	case funcOverload:
		return text(f, "FunctionProto.overload", &fn.Overload, &unused)
	case funcDoc:
		return text(f, "FunctionProto.doc_string", &fn.Doc, &unused)
	case funcInput:
		id, err := functionValue(fn, f, "FunctionProto.input")
		if err != nil {
			return err
		}
		fn.Inputs = append(fn.Inputs, id)
		return fn.Body.AddInput(graph.Decl{Value: id})
	case funcAttrName:
		s, err := f.string("FunctionProto.attribute")
		fn.AttrNames = append(fn.AttrNames, s)
		return err
	case funcAttr:
		r, err := f.sub("FunctionProto.attribute_proto")
		if err != nil {
			return err
		}
		a, err := d.attr(fn.Body, r)
		fn.AttrDefaults = append(fn.AttrDefaults, a)
		return err
	case funcOpset:
		return d.opset(f, &fn.Opsets)
	case funcMetadata:
		return metadata(f, &fn.Body.Metadata)
	}
	return nil
}

func (d *decoder) functionDecls(fn *graph.Function, f *field) error {
	switch f.num {
	case funcOutput:
		id, err := functionValue(fn, f, "FunctionProto.output")
		if err != nil {
			return err
		}
		fn.Outputs = append(fn.Outputs, id)
		return fn.Body.AddOutput(graph.Decl{Value: id})
	case funcValueInfo:
		return d.valueInfo(fn.Body, f)
	}
	return nil
}

func functionValue(fn *graph.Function, f *field, what string) (graph.ValueID, error) {
	name, err := f.bytes(what)
	if err != nil {
		return graph.NoValue, err
	}
	id := value(fn.Body, name)
	if id == graph.NoValue {
		return id, at(f.pos, "%s has no name", what)
	}
	return id, nil
}
