package onnx

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
)

// Encode returns the model as the contents of an ONNX file. Contents of
// external data stay where they are.
func Encode(m *graph.Model) ([]byte, error) {
	e, err := encode(m, nil)
	if err != nil {
		return nil, err
	}
	return e.contents(), nil
}

// Write writes the model to a stream. Large tensors go from where they lie to the
// stream; external data is referred to as before.
func Write(w io.Writer, m *graph.Model) error {
	e, err := encode(m, nil)
	if err != nil {
		return err
	}
	return e.writeTo(w)
}

// EncodeTensor returns a tensor as a TensorProto on its own, the form that the
// files of a test data set have.
func EncodeTensor(t *graph.TensorData) ([]byte, error) {
	e := &encoder{}
	if err := e.tensor(t, false); err != nil {
		return nil, err
	}
	return e.contents(), nil
}

// encoder is the state of one Encode.
type encoder struct {
	rope
	move *mover // moves contents to and within external data; nil: all stays
}

func encode(m *graph.Model, move *mover) (*encoder, error) {
	e := &encoder{move: move}
	if err := e.model(m); err != nil {
		return nil, fmt.Errorf("encoding the model: %w", err)
	}
	return e, nil
}

func (e *encoder) writeTo(w io.Writer) error {
	b := buffered(w)
	if _, err := e.WriteTo(b); err != nil {
		return err
	}
	return b.Flush()
}

func (e *encoder) model(m *graph.Model) error {
	if m.Graph == nil {
		return fmt.Errorf("it has no graph")
	}
	e.optNumber(modelIRVersion, m.IRVersion)
	if err := e.wire(msgModel, m.Extra); err != nil {
		return err
	}
	e.optText(modelProducerName, m.ProducerName)
	e.optText(modelProducerVersion, m.ProducerVersion)
	e.optText(modelDomain, m.Domain)
	e.optNumber(modelVersion, m.ModelVersion)
	e.optText(modelDoc, m.Doc)
	at := e.begin(modelGraph)
	if err := e.graph(m.Graph); err != nil {
		return err
	}
	e.end(at)
	e.opsets(modelOpset, m.Opsets)
	e.properties(modelMetadata, m.Metadata)
	for _, f := range m.Functions {
		at := e.begin(modelFunction)
		if err := e.function(f); err != nil {
			return fmt.Errorf("function %q: %w", f.Name, err)
		}
		e.end(at)
	}
	e.configurations(m.Configurations)
	return nil
}

func (e *encoder) opsets(num protowire.Number, list []graph.Opset) {
	for _, o := range list {
		at := e.begin(num)
		e.raw(o.Extra)
		e.optText(opsetDomain, o.Domain)
		e.optNumber(opsetVersion, o.Version)
		e.end(at)
	}
}

func (e *encoder) properties(num protowire.Number, list []graph.Property) {
	for _, p := range list {
		at := e.begin(num)
		e.raw(p.Extra)
		e.optText(entryKey, p.Key)
		e.optText(entryValue, p.Value)
		e.end(at)
	}
}

func (e *encoder) graph(g *graph.Graph) error {
	e.raw(g.Extra)
	if err := e.nodes(graphNode, g); err != nil {
		return err
	}
	e.optText(graphName, g.Name)
	for _, id := range g.Initializers {
		at := e.begin(graphInitializer)
		if err := e.tensor(g.Values[id].Data, true); err != nil {
			return fmt.Errorf("initializer: %w", err)
		}
		e.end(at)
	}
	e.optText(graphDoc, g.Doc)
	e.decls(graphInput, g, g.Inputs)
	e.decls(graphOutput, g, g.Outputs)
	e.decls(graphValueInfo, g, g.ValueInfo)
	for _, id := range g.Sparse {
		at := e.begin(graphSparse)
		if err := e.sparse(g.Values[id].SparseData); err != nil {
			return fmt.Errorf("sparse initializer: %w", err)
		}
		e.end(at)
	}
	e.properties(graphMetadata, g.Metadata)
	return nil
}

func (e *encoder) nodes(num protowire.Number, g *graph.Graph) error {
	for i, n := range g.Nodes {
		at := e.begin(num)
		if err := e.node(g, n); err != nil {
			return fmt.Errorf("node %q (%s): %w", g.NodeLabel(graph.NodeID(i)), n.Op, err)
		}
		e.end(at)
	}
	return nil
}

func (e *encoder) node(g *graph.Graph, n *graph.Node) error {
	rare := n.Rare()
	e.raw(rare.Extra)
	for _, id := range n.Inputs {
		e.text(nodeInput, g.ValueName(id))
	}
	for _, id := range n.Outputs {
		e.text(nodeOutput, g.ValueName(id))
	}
	e.optText(nodeName, n.Name)
	e.optText(nodeOp, n.Op)
	if err := e.attrs(nodeAttribute, n.Attrs); err != nil {
		return err
	}
	e.optText(nodeDoc, rare.Doc)
	e.optText(nodeDomain, n.Domain)
	e.optText(nodeOverload, rare.Overload)
	e.properties(nodeMetadata, rare.Metadata)
	e.devices(g, n)
	return nil
}

func (e *encoder) function(f *graph.Function) error {
	if f.Wire != nil {
		return e.wire(msgFunction, f.Wire)
	}
	e.optText(funcName, f.Name)
	for _, id := range f.Inputs {
		e.text(funcInput, f.Body.ValueName(id))
	}
	for _, id := range f.Outputs {
		e.text(funcOutput, f.Body.ValueName(id))
	}
	for _, name := range f.AttrNames {
		e.text(funcAttrName, name)
	}
	if err := e.nodes(funcNode, f.Body); err != nil {
		return err
	}
	e.optText(funcDoc, f.Doc)
	e.opsets(funcOpset, f.Opsets)
	e.optText(funcDomain, f.Domain)
	if err := e.attrs(funcAttr, f.AttrDefaults); err != nil {
		return err
	}
	e.decls(funcValueInfo, f.Body, f.Body.ValueInfo)
	e.optText(funcOverload, f.Overload)
	e.properties(funcMetadata, f.Body.Metadata)
	return nil
}

// decls writes the declarations of one list.
func (e *encoder) decls(num protowire.Number, g *graph.Graph, list []graph.Decl) {
	for i := range list {
		d := &list[i]
		if d.Wire != nil {
			e.bytes(num, d.Wire)
			continue
		}
		at := e.begin(num)
		e.text(infoName, g.ValueName(d.Value))
		if d.Type.Form != graph.FormUnknown {
			t := e.begin(infoType)
			e.typ(d.Type)
			e.end(t)
		}
		e.optText(infoDoc, d.Doc)
		e.end(at)
	}
}
