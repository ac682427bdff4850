package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
)

func (e *encoder) attrs(num protowire.Number, list []graph.Attr) error {
	for i := range list {
		at := e.begin(num)
		if err := e.attr(&list[i]); err != nil {
			return fmt.Errorf("attribute %q: %w", list[i].Name, err)
		}
		e.end(at)
	}
	return nil
}

func (e *encoder) attr(a *graph.Attr) error {
	num := protowire.Number(0)
	switch a.Value.(type) {
	case *graph.Graph:
		num = attrGraph
	case []*graph.Graph:
		num = attrGraphs
	}
	switch {
	case a.Wire == nil:
		return e.attrParts(a)
	case num == 0:
		return e.wire(msgAttr, a.Wire)
	}
	// The Go form of a graph counts: an edit inside it leaves the attribute's encoded form behind.
	err := e.wireWithout(msgAttr, a.Wire, func(n protowire.Number) bool { return n == num })
	if err != nil {
		return err
	}
	return e.attrValue(a)
}

func (e *encoder) attrParts(a *graph.Attr) error {
	e.text(attrName, a.Name)
	if a.Ref == "" || a.Value != nil {
		if err := e.attrValue(a); err != nil {
			return err
		}
	}
	e.optText(attrDoc, a.Doc)
	if kind := kindOf(a.Value); kind != 0 {
		e.number(attrKind, kind)
	}
	e.optText(attrRef, a.Ref)
	return nil
}

// kindOf returns the AttributeType of a value, or 0.
func kindOf(value any) int64 {
	switch value.(type) {
	case float32:
		return 1
	case int64:
		return 2
	case string:
		return 3
	case *graph.TensorData:
		return 4
	case *graph.Graph:
		return 5
	case []float32:
		return 6
	case []int64:
		return 7
	case []string:
		return 8
	case []*graph.TensorData:
		return 9
	case []*graph.Graph:
		return 10
	case *graph.Sparse:
		return 11
	case []*graph.Sparse:
		return 12
	case graph.Type:
		return 13
	case []graph.Type:
		return 14
	}
	return 0
}

func (e *encoder) attrValue(a *graph.Attr) error {
	switch v := a.Value.(type) {
	case float32:
		e.float(attrFloat, v)
	case int64:
		e.number(attrInt, v)
	case string:
		e.text(attrString, v)
	case []float32:
		for _, f := range v {
			e.float(attrFloats, f)
		}
	case []int64:
		for _, i := range v {
			e.number(attrInts, i)
		}
	case []string:
		for _, s := range v {
			e.text(attrStrings, s)
		}
	case graph.Type:
		return repeat(e, attrType, []graph.Type{v}, e.typeField)
	case []graph.Type:
		return repeat(e, attrTypes, v, e.typeField)
	case *graph.TensorData:
		return repeat(e, attrTensor, []*graph.TensorData{v}, e.constant)
	case []*graph.TensorData:
		return repeat(e, attrTensors, v, e.constant)
	case *graph.Sparse:
		return repeat(e, attrSparseTensor, []*graph.Sparse{v}, e.sparse)
	case []*graph.Sparse:
		return repeat(e, attrSparseTensors, v, e.sparse)
	case *graph.Graph:
		return repeat(e, attrGraph, []*graph.Graph{v}, e.graph)
	case []*graph.Graph:
		return repeat(e, attrGraphs, v, e.graph)
	default:
		return fmt.Errorf("its value has the Go type %T, which no ONNX attribute has", a.Value)
	}
	return nil
}

// repeat writes a message field for every element.
func repeat[T any](e *encoder, num protowire.Number, list []T, write func(T) error) error {
	for _, v := range list {
		at := e.begin(num)
		if err := write(v); err != nil {
			return err
		}
		e.end(at)
	}
	return nil
}

func (e *encoder) float(num protowire.Number, v float32) {
	e.tag(num, protowire.Fixed32Type)
	var buf [4]byte
	e.raw(protowire.AppendFixed32(buf[:0], math.Float32bits(v)))
}

func (e *encoder) typeField(t graph.Type) error {
	e.typ(t)
	return nil
}

// constant writes a tensor in an attribute, which stays in the file: ONNX
// Runtime wants constants there.
func (e *encoder) constant(t *graph.TensorData) error { return e.tensor(t, false) }
