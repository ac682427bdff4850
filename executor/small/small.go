// Package small has the element types of 8 bits and less that Go has no type for: integers of 4 and 2
// bits, and floating-point numbers of 8 and 4 bits. An element's bits are its code, a byte whose unused
// upper bits are 0.
//
// Tensors hold elements of less than a byte packed, as ONNX's raw_data does: the first in the lowest bits
// of a byte, without gaps between rows. Unused bits of the last byte are 0. Three uint4 elements 1, 2, 3
// are the bytes 0x21, 0x03.
package small

import (
	"math"

	"memopt/graph"
)

// IsFloat reports whether a type is a floating-point type of 8 bits or less.
func IsFloat(d graph.DType) bool { return d.IsFloat() && d.Bits() <= 8 }

// IsPacked reports whether a byte holds several elements of a type.
func IsPacked(d graph.DType) bool { return d.Bits() > 0 && d.Bits() < 8 }

// Unpacked returns the type of one byte that stands for the elements of a packed type, one a byte:
// int8 for signed integers, uint8 for unsigned ones and for the codes of float4e2m1.
// Other types stand for themselves.
func Unpacked(d graph.DType) graph.DType {
	switch {
	case d == graph.Int4 || d == graph.Int2:
		return graph.Int8
	case IsPacked(d):
		return graph.Uint8
	}
	return d
}

// Limits returns the least and the largest number of an integer type of less than 8 bits.
func Limits(d graph.DType) (least, most int32) {
	if Unpacked(d) == graph.Int8 {
		return -1 << (d.Bits() - 1), 1<<(d.Bits()-1) - 1
	}
	return 0, 1<<d.Bits() - 1
}

// Code returns the code of element i of a tensor's data. The type has 8 bits or less.
func Code(d graph.DType, data []byte, i int) byte {
	at := i * d.Bits()
	return data[at/8] >> (at % 8) & byte(1<<d.Bits()-1)
}

// SetCode sets element i, ignoring bits of code above those of the type, and clears the elements behind it
// in the same byte: elements of a byte are set in their order.
func SetCode(d graph.DType, data []byte, i int, code byte) {
	at := i * d.Bits()
	b, shift := &data[at/8], at%8
	*b = *b&(1<<shift-1) | code&byte(1<<d.Bits()-1)<<shift
}

// Unpack sets dst to the elements first, first+1, ... of a packed type, as bytes of the type Unpacked.
func Unpack(d graph.DType, dst, data []byte, first int) {
	unused := 8 - d.Bits()
	signed := Unpacked(d) == graph.Int8
	for i := range dst {
		dst[i] = Code(d, data, first+i)
		if signed {
			dst[i] = byte(int8(dst[i]<<unused) >> unused)
		}
	}
}

// Pack sets the elements first, first+1, ... of a packed type to the lower bits of bytes.
func Pack(d graph.DType, data []byte, first int, from []byte) {
	for i, b := range from {
		SetCode(d, data, first+i, b)
	}
}

// format is a floating-point type: a sign, exponent and fraction.
type format struct {
	fraction int  // bits
	bias     int  // of the exponent
	sign     byte // its bit
	most     byte // code of the largest finite number
	over     byte // code of numbers beyond it, but for saturation
	nan      byte // code of NaN; with unsigned its sign is lost
	unsigned bool // whether 0 and NaN have no sign: fnuz
}

// formats has the tables of https://onnx.ai/onnx/technical/float8.html and float4.html.
var formats = map[graph.DType]format{
	graph.Float8E4M3FN:   {fraction: 3, bias: 7, sign: 0x80, most: 0x7e, over: 0x7f, nan: 0x7f},
	graph.Float8E4M3FNUZ: {fraction: 3, bias: 8, sign: 0x80, most: 0x7f, over: 0x80, nan: 0x80, unsigned: true},
	graph.Float8E5M2:     {fraction: 2, bias: 15, sign: 0x80, most: 0x7b, over: 0x7c, nan: 0x7f},
	graph.Float8E5M2FNUZ: {fraction: 2, bias: 16, sign: 0x80, most: 0x7f, over: 0x80, nan: 0x80, unsigned: true},
	graph.Float4E2M1:     {fraction: 1, bias: 1, sign: 8, most: 7, over: 7, nan: 7},
}

// Values returns the numbers of all codes of a floating-point type of 8 bits or less.
func Values(d graph.DType) *[256]float32 { return tables[d-graph.Float8E4M3FN] }

var tables = makeTables()

func makeTables() (t [graph.Float8E8M0 - graph.Float8E4M3FN + 1]*[256]float32) {
	for d := graph.Float8E4M3FN; d <= graph.Float8E8M0; d++ {
		if !d.IsFloat() {
			continue
		}
		var v [256]float32
		for code := range v {
			v[code] = decode(d, byte(code))
		}
		t[d-graph.Float8E4M3FN] = &v
	}
	return t
}

func decode(d graph.DType, code byte) float32 {
	if d == graph.Float8E8M0 {
		if code == scaleNaN {
			return float32(math.NaN())
		}
		return float32(math.Ldexp(1, int(code)-scaleBias))
	}
	f := formats[d]
	size := code & (f.sign - 1)
	var x float64
	switch exp, fraction := int(size>>f.fraction), int(size)&(1<<f.fraction-1); {
	case f.unsigned && code == f.nan, size > f.most && size > f.over, size > f.most && f.over == f.nan:
		return float32(math.NaN())
	case size > f.most:
		x = math.Inf(1)
	case exp == 0:
		x = math.Ldexp(float64(fraction), 1-f.bias-f.fraction)
	default:
		x = math.Ldexp(float64(1<<f.fraction+fraction), exp-f.bias-f.fraction)
	}
	if code&f.sign != 0 {
		x = math.Copysign(x, -1)
	}
	return float32(x)
}

// Rounding is how a number becomes a power of two.
type Rounding int

// The values of the attribute round_mode of Cast.
const (
	Up      Rounding = iota // to the next larger one
	Down                    // to the next smaller one
	Nearest                 // halves up
)

// Encoder rounds numbers to a floating-point type of 8 bits or less.
type Encoder struct {
	d        graph.DType
	saturate bool
	rounding Rounding
	format
}

// NewEncoder returns the encoder of a type. With saturate, numbers beyond the largest finite one become
// that one, else infinity or NaN; float4e2m1, which has neither, always saturates. The rounding is that of
// float8e8m0; other types round to nearest, ties to even.
//
// https://onnx.ai/onnx/operators/onnx__Cast.html
func NewEncoder(d graph.DType, saturate bool, r Rounding) Encoder {
	return Encoder{d: d, saturate: saturate, rounding: r, format: formats[d]}
}

// Code returns the code of a number.
func (e *Encoder) Code(x float64) byte {
	if e.d == graph.Float8E8M0 {
		return e.scale(x)
	}
	var sign byte
	if math.Signbit(x) {
		sign = e.sign
	}
	var code byte
	switch size := math.Abs(x); {
	case x != x && e.unsigned:
		return e.nan
	case x != x && e.d == graph.Float4E2M1:
		return e.nan
	case x != x:
		return sign | e.nan
	default:
		code = e.size(size)
	}
	if code == 0 && e.unsigned {
		return 0
	}
	if code > e.most {
		if code = e.over; e.unsigned {
			return code
		}
	}
	return sign | code
}

// size returns the code of a number that is not negative, or one above the largest number's.
func (e *Encoder) size(x float64) byte {
	beyond := e.most
	if !e.saturate && e.over != e.most {
		beyond = e.most + 1
	}
	if x > 1<<20 { // infinity, and more than any type has
		return beyond
	}
	exp := 1 - e.bias
	if x >= math.Ldexp(1, exp) {
		exp = math.Ilogb(x)
	}
	n := int(math.RoundToEven(math.Ldexp(x, e.fraction-exp))) + (exp+e.bias-1)<<e.fraction
	if n > int(e.most) {
		return beyond
	}
	return byte(n)
}

const (
	scaleBias = 127
	scaleNaN  = 0xff
	scaleMost = 0xfe
)

// scale returns the code of float8e8m0, whose numbers are 2^-127 to 2^127 and NaN. The specification
// does not define the result for negative numbers; here they become NaN.
func (e *Encoder) scale(x float64) byte {
	least, most := math.Ldexp(1, -scaleBias), math.Ldexp(1, scaleBias)
	switch {
	case x != x || x < 0 || (x < least || x > most) && !e.saturate:
		return scaleNaN
	case x <= least:
		return 0
	case x >= most:
		return scaleMost
	}
	exp := math.Ilogb(x)
	part := math.Ldexp(x, -exp) // 1 to 2
	if e.rounding == Up && part > 1 || e.rounding == Nearest && part >= 1.5 {
		exp++
	}
	return byte(exp + scaleBias)
}
