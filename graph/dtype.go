package graph

import "fmt"

// DType is the element type of a tensor, numbered as TensorProto.DataType in
// the ONNX specification. The zero value is an unknown type.
type DType int32

// The element types that ONNX defines.
const (
	Undefined      DType = 0
	Float32        DType = 1
	Uint8          DType = 2
	Int8           DType = 3
	Uint16         DType = 4
	Int16          DType = 5
	Int32          DType = 6
	Int64          DType = 7
	String         DType = 8
	Bool           DType = 9
	Float16        DType = 10
	Float64        DType = 11
	Uint32         DType = 12
	Uint64         DType = 13
	Complex64      DType = 14
	Complex128     DType = 15
	BFloat16       DType = 16
	Float8E4M3FN   DType = 17
	Float8E4M3FNUZ DType = 18
	Float8E5M2     DType = 19
	Float8E5M2FNUZ DType = 20
	Uint4          DType = 21
	Int4           DType = 22
	Float4E2M1     DType = 23
	Float8E8M0     DType = 24
	Uint2          DType = 25
	Int2           DType = 26
	numDTypes            = 27
)

// dtypes has the name in ONNX's textual syntax and the bits of one element.
// Strings have no fixed size: 0 bits.
var dtypes = [numDTypes]struct {
	name string
	bits int
}{
	Undefined:      {"undefined", 0},
	Float32:        {"float", 32},
	Uint8:          {"uint8", 8},
	Int8:           {"int8", 8},
	Uint16:         {"uint16", 16},
	Int16:          {"int16", 16},
	Int32:          {"int32", 32},
	Int64:          {"int64", 64},
	String:         {"string", 0},
	Bool:           {"bool", 8},
	Float16:        {"float16", 16},
	Float64:        {"double", 64},
	Uint32:         {"uint32", 32},
	Uint64:         {"uint64", 64},
	Complex64:      {"complex64", 64},
	Complex128:     {"complex128", 128},
	BFloat16:       {"bfloat16", 16},
	Float8E4M3FN:   {"float8e4m3fn", 8},
	Float8E4M3FNUZ: {"float8e4m3fnuz", 8},
	Float8E5M2:     {"float8e5m2", 8},
	Float8E5M2FNUZ: {"float8e5m2fnuz", 8},
	Uint4:          {"uint4", 4},
	Int4:           {"int4", 4},
	Float4E2M1:     {"float4e2m1", 4},
	Float8E8M0:     {"float8e8m0", 8},
	Uint2:          {"uint2", 2},
	Int2:           {"int2", 2},
}

// Valid reports whether d is a type that ONNX defines, Undefined excluded.
func (d DType) Valid() bool { return d > Undefined && d < numDTypes }

// String returns the type's name in ONNX's textual syntax: "float" for
// Float32, "double" for Float64, "int64" and so on.
func (d DType) String() string {
	if d < 0 || d >= numDTypes {
		return fmt.Sprintf("dtype(%d)", int32(d))
	}
	return dtypes[d].name
}

// Bits returns the size of one element in bits, or 0 if it is not fixed (strings) or not known.
func (d DType) Bits() int {
	if d < 0 || d >= numDTypes {
		return 0
	}
	return dtypes[d].bits
}

// IsFloat reports whether d is a real floating-point type, of any width.
func (d DType) IsFloat() bool {
	switch d {
	case Float32, Float16, Float64, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ,
		Float4E2M1, Float8E8M0:
		return true
	}
	return false
}

// IsInteger reports whether d is a signed or unsigned integer type. Bool is
// not one.
func (d DType) IsInteger() bool {
	switch d {
	case Uint8, Int8, Uint16, Int16, Int32, Int64, Uint32, Uint64, Uint4, Int4, Uint2, Int2:
		return true
	}
	return false
}

// ParseDType returns the type with the given name in ONNX's textual syntax.
func ParseDType(name string) (DType, bool) {
	for d := Float32; d < numDTypes; d++ {
		if dtypes[d].name == name {
			return d, true
		}
	}
	return Undefined, false
}
