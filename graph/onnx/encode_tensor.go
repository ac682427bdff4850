package onnx

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
)

// wire writes a message in its encoded form.
func (e *encoder) wire(m message, b []byte) error {
	if e.move == nil || m == noTensors {
		e.raw(b)
		return nil
	}
	return e.wireWithout(m, b, func(protowire.Number) bool { return false })
}

// wireWithout writes an encoded message without some of its fields. Where contents
// move, it rewrites the tensors inside.
func (e *encoder) wireWithout(m message, b []byte, drop func(protowire.Number) bool) error {
	return reader{rest: b, pos: -1}.each(func(f *field) error {
		if drop(f.num) {
			return nil
		}
		inside := tensorsIn(m, f.num)
		if e.move == nil || inside == noTensors || f.typ != protowire.BytesType {
			e.raw(f.raw)
			return nil
		}
		at := e.begin(f.num)
		var err error
		if inside == msgTensor {
			err = e.movedWire(f.body, m == msgGraph)
		} else {
			err = e.wire(inside, f.body)
		}
		e.end(at)
		return err
	})
}

// tensor writes a TensorProto's contents. weight says that it is an initializer,
// which may move to external data.
func (e *encoder) tensor(t *graph.TensorData, weight bool) error {
	switch {
	case t.Wire == nil:
		return e.tensorParts(t, weight)
	case e.move == nil:
		e.raw(t.Wire)
		return nil
	}
	return e.moved(t, weight)
}

// tensorParts writes a tensor from its Go fields.
func (e *encoder) tensorParts(t *graph.TensorData, weight bool) error {
	for _, d := range t.Dims {
		e.number(tensorDims, d)
	}
	e.number(tensorDType, int64(t.DType))
	for _, s := range t.Strings {
		e.text(tensorStrings, s)
	}
	e.optText(tensorName, t.Name)
	e.optText(tensorDoc, t.Doc)
	place, err := e.place(t, weight)
	if err != nil {
		return err
	}
	if place != nil {
		e.externalFields(place, nil)
		return nil
	}
	if t.Source == nil {
		return nil
	}
	raw, err := t.Source.Bytes()
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	e.bytes(tensorRaw, raw)
	return nil
}

// externalFields writes where a tensor lies; kept are entries to repeat besides.
func (e *encoder) externalFields(x *graph.External, kept []graph.Property) {
	entries := []graph.Property{{Key: "location", Value: x.Location}}
	if x.Offset != 0 {
		entries = append(entries, graph.Property{Key: "offset", Value: strconv.FormatInt(x.Offset, 10)})
	}
	if x.Length >= 0 {
		entries = append(entries, graph.Property{Key: "length", Value: strconv.FormatInt(x.Length, 10)})
	}
	if x.Checksum != "" {
		entries = append(entries, graph.Property{Key: "checksum", Value: x.Checksum})
	}
	e.properties(tensorExternal, append(entries, kept...))
	e.number(tensorDataPlace, placeExternal)
}

// moved writes a tensor from its encoded form, at the place where its contents
// are to lie.
func (e *encoder) moved(t *graph.TensorData, weight bool) error {
	place, err := e.place(t, weight)
	if err != nil {
		return err
	}
	if place == nil || place == t.External {
		e.raw(t.Wire)
		return nil
	}
	var kept []graph.Property
	err = e.wireWithout(noTensors, t.Wire, func(num protowire.Number) bool {
		switch num {
		case tensorRaw, tensorFloats, tensorInt32s, tensorInt64s, tensorDoubles, tensorUint64s,
			tensorExternal, tensorDataPlace:
			return true
		}
		return false
	})
	if err == nil {
		kept, err = otherEntries(t.Wire)
	}
	e.externalFields(place, kept)
	return err
}

// otherEntries returns the entries of external_data that have no Go field.
func otherEntries(wire []byte) (kept []graph.Property, err error) {
	err = reader{rest: wire, pos: -1}.eachOf(tensorExternal, func(f *field) error {
		p, err := entry(f)
		switch p.Key {
		case "location", "offset", "length", "checksum":
		default:
			kept = append(kept, p)
		}
		return err
	})
	return kept, err
}

// movedWire is moved for a tensor with an encoded form only: one in a function or in training_info.
func (e *encoder) movedWire(wire []byte, weight bool) error {
	stays, err := e.move.stays(wire, weight)
	if err != nil {
		return err
	}
	if stays {
		e.raw(wire)
		return nil
	}
	d := &decoder{files: e.move.from, names: map[string]string{}}
	t, err := d.tensor(reader{rest: wire, pos: -1})
	if err != nil {
		return err
	}
	return e.moved(t, weight)
}

// place says where in external data a tensor is to lie; nil is in the file.
func (e *encoder) place(t *graph.TensorData, weight bool) (*graph.External, error) {
	if e.move == nil {
		return t.External, nil
	}
	x, err := e.move.place(t, weight)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return x, nil
}

// sparse writes a SparseTensorProto's contents.
func (e *encoder) sparse(s *graph.Sparse) error {
	if s.Wire != nil {
		return e.wire(msgSparse, s.Wire)
	}
	for _, part := range []struct {
		num protowire.Number
		t   *graph.TensorData
	}{{sparseValues, s.Values}, {sparseIndices, s.Indices}} {
		at := e.begin(part.num)
		if err := e.tensor(part.t, false); err != nil {
			return err
		}
		e.end(at)
	}
	for _, d := range s.Dims {
		e.number(sparseDims, d)
	}
	return nil
}
