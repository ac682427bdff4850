package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// elementText prints element i of a tensor's raw contents. Types without a number syntax of
// their own print their bits.
func elementText(d DType, raw []byte, i int) string {
	le := binary.LittleEndian
	switch d {
	case Float32:
		return floatText(float64(math.Float32frombits(le.Uint32(raw[4*i:]))), 32)
	case Float64:
		return floatText(math.Float64frombits(le.Uint64(raw[8*i:])), 64)
	case Int64:
		return strconv.FormatInt(int64(le.Uint64(raw[8*i:])), 10)
	case Int32:
		return strconv.FormatInt(int64(int32(le.Uint32(raw[4*i:]))), 10)
	case Int16:
		return strconv.FormatInt(int64(int16(le.Uint16(raw[2*i:]))), 10)
	case Int8:
		return strconv.FormatInt(int64(int8(raw[i])), 10)
	case Uint64:
		return strconv.FormatUint(le.Uint64(raw[8*i:]), 10)
	case Uint32:
		return strconv.FormatUint(uint64(le.Uint32(raw[4*i:])), 10)
	case Uint16:
		return strconv.FormatUint(uint64(le.Uint16(raw[2*i:])), 10)
	case Uint8, Bool:
		return strconv.FormatUint(uint64(raw[i]), 10)
	}
	switch bits := d.Bits(); bits {
	case 16:
		return fmt.Sprintf("0x%04x", le.Uint16(raw[2*i:]))
	case 8:
		return fmt.Sprintf("0x%02x", raw[i])
	case 64, 128: // complex: the bits of both parts
		return fmt.Sprintf("0x%0*x", bits/4, reversed(raw[bits/8*i:bits/8*(i+1)]))
	default: // 4 and 2 bits, packed from the low end of each byte
		per := 8 / bits
		return fmt.Sprintf("0x%x", raw[i/per]>>(i%per*bits)&(1<<bits-1))
	}
}

func reversed(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[len(b)-1-i] = b[i]
	}
	return out
}

// appendElement appends the raw form of an element to raw; i is its index. ok is false where the
// text is no element of the type.
func appendElement(d DType, raw []byte, i int, text string) (out []byte, ok bool) {
	le := binary.LittleEndian
	switch d {
	case Float32:
		x, err := strconv.ParseFloat(text, 32)
		return le.AppendUint32(raw, math.Float32bits(float32(x))), err == nil
	case Float64:
		x, err := strconv.ParseFloat(text, 64)
		return le.AppendUint64(raw, math.Float64bits(x)), err == nil
	case Bool:
		if text == "true" || text == "false" {
			text = map[string]string{"true": "1", "false": "0"}[text]
		}
	}
	bits := d.Bits()
	if bits > 64 {
		return appendWide(raw, bits, text)
	}
	n, ok := elementBits(d, bits, text)
	if !ok {
		return raw, false
	}
	switch bits {
	case 64:
		return le.AppendUint64(raw, n), true
	case 32:
		return le.AppendUint32(raw, uint32(n)), true
	case 16:
		return le.AppendUint16(raw, uint16(n)), true
	case 8:
		return append(raw, byte(n)), true
	}
	per := 8 / bits
	if i%per == 0 {
		raw = append(raw, 0)
	}
	raw[len(raw)-1] |= byte(n) << (i % per * bits)
	return raw, true
}

// elementBits reads an integer of the given width, signed where the type is.
func elementBits(d DType, bits int, text string) (uint64, bool) {
	signed := d == Int64 || d == Int32 || d == Int16 || d == Int8
	if signed && (len(text) < 2 || text[:2] != "0x") {
		n, err := strconv.ParseInt(text, 10, bits)
		return uint64(n), err == nil
	}
	n, err := strconv.ParseUint(text, 0, bits)
	return n, err == nil
}

// appendWide reads an element of more than 64 bits from hexadecimal digits.
func appendWide(raw []byte, bits int, text string) ([]byte, bool) {
	if len(text) != 2+bits/4 || text[:2] != "0x" {
		return raw, false
	}
	for at := len(text) - 2; at >= 2; at -= 2 {
		n, err := strconv.ParseUint(text[at:at+2], 16, 8)
		if err != nil {
			return raw, false
		}
		raw = append(raw, byte(n))
	}
	return raw, true
}
