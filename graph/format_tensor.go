package graph

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// ErrElided is the error of reading the contents of a tensor that were left out of the text it was
// parsed from.
var ErrElided = errors.New("the contents were elided from the text; print it with FormatOptions.MaxElements -1")

// elided is the Source of contents that a text left out.
type elided struct{}

// Bytes fails.
func (elided) Bytes() ([]byte, error) { return nil, ErrElided }

// tensorHead prints a tensor's type and name, up to where its contents go.
func (p *printer) tensorHead(d DType, dims []int64, name string) {
	p.dtype(d)
	if len(dims) > 0 {
		p.row("[", len(dims), "]", func(i int) { p.int(dims[i]) })
	}
	if name != "" {
		p.str(" ")
		p.name(name)
	}
	p.str(" = ")
}

// tensor prints a tensor as an attribute has it. ONNX's grammar has no "=" between
// its type and its elements.
func (p *printer) tensor(t *TensorData) {
	if t == nil {
		t = &TensorData{}
	}
	p.tensorHead(t.DType, t.Dims, t.Name)
	at := len(p.buf)
	p.contents(t)
	if t.Name == "" && p.buf[at] == '{' {
		p.buf = append(p.buf[:at-len("= ")], p.buf[at:]...)
	}
}

// contents prints the text behind a tensor's "=".
func (p *printer) contents(t *TensorData) {
	p.inlineNotes(t.Doc, nil, nil)
	if t.External != nil {
		p.properties(t.External.entries())
		return
	}
	n, err := t.Elements()
	tooMany := p.opts.MaxElements >= 0 && (err != nil || n > int64(p.opts.MaxElements))
	switch {
	case t.Source == nil && t.Strings == nil:
		p.str("{}")
	case tooMany || t.Source == elided{}:
		p.str("{...}")
	case t.Source == nil:
		p.fill("{", len(t.Strings), "}", func(i int) { p.quote(t.Strings[i]) })
	default:
		p.numbers(t)
	}
}

// entries returns the entries of external_data, as the file has them.
func (x *External) entries() []Property {
	list := []Property{{Key: "location", Value: x.Location}}
	if x.Offset != 0 {
		list = append(list, Property{Key: "offset", Value: strconv.FormatInt(x.Offset, 10)})
	}
	if x.Length >= 0 {
		list = append(list, Property{Key: "length", Value: strconv.FormatInt(x.Length, 10)})
	}
	if x.Checksum != "" {
		list = append(list, Property{Key: "checksum", Value: x.Checksum})
	}
	return list
}

// numbers prints the elements of a numeric tensor, or its bytes where they are
// no whole elements. Contents that cannot be read are elided.
func (p *printer) numbers(t *TensorData) {
	raw, err := t.Source.Bytes()
	if err != nil {
		p.str("{...}")
		return
	}
	n, ok := t.wholeElements(raw)
	if !ok {
		if limit := p.opts.MaxElements; limit >= 0 && len(raw)/16 > limit {
			p.str("{...}")
			return
		}
		p.str(wordRaw + " ")
		p.quote(string(raw))
		return
	}
	p.fill("{", n, "}", func(i int) { p.buf = t.DType.appendElement(p.buf, raw, i) })
}

// wholeElements returns the number of numbers that the contents print as, two per
// complex element, and whether these are all that raw says.
func (t *TensorData) wholeElements(raw []byte) (int, bool) {
	want, err := t.Bytes()
	width := t.DType.Bits()
	if err != nil || width == 0 || int64(len(raw)) != want || len(raw) == 0 {
		return 0, err == nil && width != 0 && want == 0 && len(raw) == 0
	}
	n := len(raw) * 8 / t.DType.partBits()
	if width < 8 {
		elems, _ := t.Elements()
		n = int(elems)
		if used := n * width % 8; used != 0 && raw[len(raw)-1]>>used != 0 {
			return 0, false // the padding is not 0
		}
	}
	return n, true
}

// partBits returns the width of one printed number.
func (d DType) partBits() int {
	if d == Complex64 || d == Complex128 {
		return d.Bits() / 2
	}
	return d.Bits()
}

// appendElement prints number i of a tensor's contents.
func (d DType) appendElement(buf, raw []byte, i int) []byte {
	bits := d.elementBits(raw, i)
	switch d {
	case Float32, Complex64:
		return appendFloat32(buf, uint32(bits))
	case Float64, Complex128:
		return appendFloat64(buf, bits)
	case Int8, Int16, Int32, Int64, Int4, Int2:
		shift := 64 - d.Bits()
		return strconv.AppendInt(buf, int64(bits<<shift)>>shift, 10)
	}
	return strconv.AppendUint(buf, bits, 10)
}

// elementBits returns the bits of number i.
func (d DType) elementBits(raw []byte, i int) uint64 {
	switch width := d.partBits(); width {
	case 64:
		return binary.LittleEndian.Uint64(raw[8*i:])
	case 32:
		return uint64(binary.LittleEndian.Uint32(raw[4*i:]))
	case 16:
		return uint64(binary.LittleEndian.Uint16(raw[2*i:]))
	case 8:
		return uint64(raw[i])
	default:
		at := i * width
		return uint64(raw[at/8]) >> (at % 8) & (1<<width - 1)
	}
}

// appendBits is the inverse of elementBits: it appends number i.
func (d DType) appendBits(raw []byte, i int, bits uint64) []byte {
	switch width := d.partBits(); width {
	case 64:
		return binary.LittleEndian.AppendUint64(raw, bits)
	case 32:
		return binary.LittleEndian.AppendUint32(raw, uint32(bits))
	case 16:
		return binary.LittleEndian.AppendUint16(raw, uint16(bits))
	case 8:
		return append(raw, byte(bits))
	default:
		at := i * width
		if at%8 == 0 {
			raw = append(raw, 0)
		}
		raw[at/8] |= byte(bits&(1<<width-1)) << (at % 8)
		return raw
	}
}

// sparse prints a sparse tensor: its values and their indices are dense ones.
func (p *printer) sparse(s *Sparse) {
	values := TensorData{}
	if s.Values != nil {
		values = *s.Values
	}
	p.str(wordSparse + "(")
	p.dtype(values.DType)
	if len(s.Dims) > 0 {
		p.row("[", len(s.Dims), "]", func(i int) { p.int(s.Dims[i]) })
	}
	p.str(")")
	if values.Name != "" {
		p.str(" ")
		p.name(values.Name)
	}
	p.str(" = {")
	values.Name = ""
	p.tensor(&values)
	p.str(", ")
	p.tensor(s.Indices)
	p.str("}")
}
