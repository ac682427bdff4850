package onnx

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
	"memopt/internal/memlimit"
)

// failing is the Source of contents that are not available.
type failing struct{ err error }

// Bytes returns the reason.
func (f failing) Bytes() ([]byte, error) { return nil, f.err }

// typed is the Source of a tensor whose contents lie in one of TensorProto's typed
// fields. It converts them whenever it is asked.
type typed struct {
	wire  []byte // TensorProto
	dtype graph.DType
}

// Bytes returns the contents as raw_data would have them.
func (t *typed) Bytes() ([]byte, error) {
	var raw []byte
	num, read := typedField(t.dtype)
	if read == nil {
		return nil, fmt.Errorf("contents of type %v cannot lie in a typed field", t.dtype)
	}
	// A number of one byte can stand for eight, and the parts of a tensor are gathered first.
	const expansion = 16
	if err := memlimit.Check(expansion*int64(len(t.wire)), "the %d bytes of a tensor in typed fields",
		len(t.wire)); err != nil {
		return nil, err
	}
	err := reader{rest: t.wire, pos: -1}.eachOf(num, func(f *field) (err error) {
		raw, err = read(raw, f)
		return err
	})
	return raw, err
}

// typedField returns the field in which ONNX keeps elements of a type, and a
// function that appends the raw form of the field's elements.
func typedField(d graph.DType) (protowire.Number, func([]byte, *field) ([]byte, error)) {
	switch d {
	case graph.Float32, graph.Complex64:
		return tensorFloats, func(raw []byte, f *field) ([]byte, error) { return fixed(raw, f, 4, "float_data") }
	case graph.Float64, graph.Complex128:
		return tensorDoubles, func(raw []byte, f *field) ([]byte, error) { return fixed(raw, f, 8, "double_data") }
	case graph.Int64:
		return tensorInt64s, func(raw []byte, f *field) ([]byte, error) { return integers(raw, f, 8, "int64_data") }
	case graph.Uint64:
		return tensorUint64s, func(raw []byte, f *field) ([]byte, error) { return integers(raw, f, 8, "uint64_data") }
	case graph.Uint32:
		return tensorUint64s, func(raw []byte, f *field) ([]byte, error) { return integers(raw, f, 4, "uint64_data") }
	}
	// All that is narrower shares int32_data: 16-bit floats by their bits, and
	// elements of less than a byte packed, a byte per entry.
	width := (d.Bits() + 7) / 8
	if width == 0 || width > 4 {
		return 0, nil
	}
	return tensorInt32s, func(raw []byte, f *field) ([]byte, error) { return integers(raw, f, width, "int32_data") }
}

// integers appends the low bytes of each element of an integer field.
func integers(raw []byte, f *field, width int, what string) ([]byte, error) {
	list, err := varints[uint64](nil, f, what)
	for _, v := range list {
		switch width {
		case 1:
			raw = append(raw, byte(v))
		case 2:
			raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
		case 4:
			raw = binary.LittleEndian.AppendUint32(raw, uint32(v))
		default:
			raw = binary.LittleEndian.AppendUint64(raw, v)
		}
	}
	return raw, err
}
