package weights

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
	"memopt/internal/mapfile"
	"memopt/internal/memlimit"
)

// widens reports whether every number of a type is one of another, so that converting is exact.
func widens(from, to graph.DType) bool {
	switch to {
	case graph.Float32:
		return from == graph.Float16 || from == graph.BFloat16
	case graph.Float64:
		return from == graph.Float16 || from == graph.BFloat16 || from == graph.Float32
	}
	return false
}

// Tensor returns the contents of a parameter, as a copy, or false if it has no tensor.
func (m *Matching) Tensor(parameter string) (t *executor.Tensor, ok bool, err error) {
	i, ok := m.at[parameter]
	if !ok {
		return nil, false, nil
	}
	defer mapfile.Guard(&err)()
	v, _ := m.model.Graph.Lookup(parameter)
	value := &m.model.Graph.Values[v]
	typ := value.Type
	if value.Data != nil {
		typ = value.Data.Type()
	}
	shape, _ := static(typ)
	size, _ := executor.Bytes(typ.DType, shape)
	if err := memlimit.Check(int64(size), "parameter %q", parameter); err != nil {
		return nil, true, err
	}
	from, _ := m.file.Tensor(m.Matches[i].Tensor)
	t = &executor.Tensor{DType: typ.DType, Shape: shape, Data: executor.Memory(make([]uint64, (size+7)/8))[:size]}
	if from.DType == t.DType && !m.Matches[i].Transpose {
		copy(t.Data, from.Data)
		return t, true, nil
	}
	rearrange(t, from, m.Matches[i].Transpose)
	return t, true, nil
}

// Shown is Tensor without a copy where the file has the parameter as the model wants it: read-only, until the file is
// closed.
func (m *Matching) Shown(parameter string) (t *executor.Tensor, ok bool, err error) {
	i, ok := m.at[parameter]
	if !ok || m.Matches[i].Transpose {
		return m.Tensor(parameter)
	}
	v, _ := m.model.Graph.Lookup(parameter)
	value := &m.model.Graph.Values[v]
	typ := value.Type
	if value.Data != nil {
		typ = value.Data.Type()
	}
	from, _ := m.file.Tensor(m.Matches[i].Tensor)
	const word = 8 // of the widest element
	if from.DType != typ.DType || uintptr(unsafe.Pointer(unsafe.SliceData(from.Data)))%word != 0 {
		return m.Tensor(parameter)
	}
	shape, _ := static(typ)
	return &executor.Tensor{DType: typ.DType, Shape: shape, Data: from.Data}, true, nil
}

// rearrange converts and transposes elements.
func rearrange(to, from *executor.Tensor, transpose bool) {
	rows, columns := to.Len(), 1 // of to
	if transpose {
		rows, columns = to.Shape[0], to.Shape[1]
	}
	a, b := from.DType.Bits()/8, to.DType.Bits()/8
	for r := range rows {
		for c := range columns {
			src, dst := c*rows+r, r*columns+c
			element(to.DType, to.Data[dst*b:][:b], from.DType, from.Data[src*a:][:a])
		}
	}
}

// element copies one element, converted where the types differ.
func element(to graph.DType, dst []byte, from graph.DType, src []byte) {
	if to == from {
		copy(dst, src)
		return
	}
	var v float64
	switch from {
	case graph.Float16:
		v = float64(half.Float16(binary.LittleEndian.Uint16(src)).Float32())
	case graph.BFloat16:
		v = float64(half.BFloat16(binary.LittleEndian.Uint16(src)).Float32())
	default:
		v = float64(math.Float32frombits(binary.LittleEndian.Uint32(src)))
	}
	if to == graph.Float32 {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(v)))
		return
	}
	binary.LittleEndian.PutUint64(dst, math.Float64bits(v))
}

// contents reads a parameter on demand.
type contents struct {
	m         *Matching
	parameter string
}

// Bytes returns the contents.
func (c contents) Bytes() ([]byte, error) {
	t, _, err := c.m.Tensor(c.parameter)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.m.file.Path(), err)
	}
	return t.Data, nil
}

// Changes reports whether an initializer's contents in the file differ from the model's.
func (m *Matching) Changes(parameter string) (bool, error) {
	v, ok := m.model.Graph.Lookup(parameter)
	if !ok || m.model.Graph.Values[v].Data == nil {
		return true, nil // an input has no contents
	}
	t, ok, err := m.Tensor(parameter)
	if err != nil || !ok {
		return false, err
	}
	if len(t.Data) == 0 {
		return false, nil
	}
	old, err := m.model.Graph.Values[v].Data.Source.Bytes()
	return !bytes.Equal(old, t.Data), err
}
