package graph

import (
	"math"
	"strconv"
	"strings"
)

// dense reads the contents of a tensor whose type stands at a place.
func (p *parser) dense(at int, t Type, name string) *TensorData {
	if t.Form != FormTensor {
		p.fail(at, "contents must follow a tensor type, got %s", shorten(typeText(t)))
	}
	d := &TensorData{Name: name, DType: t.DType, Dims: p.fixedDims(at, t)}
	_, err := d.Bytes()
	p.check(at, err)
	p.contents(d)
	return d
}

// fixedDims returns the dims of a shape of numbers.
func (p *parser) fixedDims(at int, t Type) []int64 {
	s := t.Shape
	if !s.Ranked {
		p.fail(at, "contents need numeric dims, got an unknown rank; a scalar's type has no "+
			"brackets")
	}
	dims := make([]int64, len(s.Dims))
	for i, e := range s.Dims {
		c, ok := e.Const()
		if !ok || c < 0 {
			p.fail(at, "contents need numeric dims, got %s", shorten(typeText(t)))
		}
		dims[i] = c
	}
	return dims
}

// contents reads the text behind a tensor's "=".
func (p *parser) contents(t *TensorData) {
	t.Doc = p.docOnly()
	switch {
	case p.tok.kind == tokIdent && p.tok.text == wordRaw:
		p.next()
		t.Source = Raw(p.quoted("quoted bytes"))
	case p.is("["):
		p.external(t)
	case p.is("{"):
		p.elements(t)
	default:
		p.unexpected(`the contents of a tensor: {elements}, ["location": "file"] or raw "bytes"`)
	}
}

// external reads where contents lie outside the file.
func (p *parser) external(t *TensorData) {
	at := p.tok.at
	x := &External{Length: -1}
	for _, e := range p.properties() {
		var err error
		switch e.Key {
		case "location":
			x.Location = e.Value
		case "offset":
			x.Offset, err = strconv.ParseInt(e.Value, 10, 64)
		case "length":
			x.Length, err = strconv.ParseInt(e.Value, 10, 64)
		case "checksum":
			x.Checksum = e.Value
		default:
			p.fail(at, "external data has no entry %q", shorten(e.Key))
		}
		if err != nil || x.Offset < 0 || x.Length < -1 {
			p.fail(at, "external data: %s is %q, wanted a number of bytes", e.Key, shorten(e.Value))
		}
	}
	if x.Location == "" {
		p.fail(at, "external data has no location")
	}
	t.External = x
}

// elements reads "{...}", "{}" or as many elements as the dims say.
func (p *parser) elements(t *TensorData) {
	at := p.tok.at
	p.expect("{")
	if p.is("...") {
		if !p.opts.Elided {
			p.fail(p.tok.at,
				"the contents of tensor %q are elided; print the model with all elements, or allow elided contents",
				shorten(t.Name))
		}
		p.next()
		p.expect("}")
		t.Source = elided{}
		return
	}
	if p.accept("}") {
		return
	}
	want, _ := t.Elements()
	if t.DType == Complex64 || t.DType == Complex128 {
		want *= 2
	}
	var raw []byte
	n := 0
	p.items("}", func() {
		if int64(n) == want {
			p.fail(p.tok.at, "tensor %q has more elements than its dims %v say, %d", shorten(t.Name), t.Dims, want)
		}
		if t.DType == String {
			t.Strings = append(t.Strings, p.quoted("a quoted string"))
		} else {
			raw = t.DType.appendBits(raw, n, p.element(t.DType))
		}
		n++
	})
	if int64(n) != want {
		p.fail(at, "tensor %q has %d elements, wanted %d for dims %v", shorten(t.Name), n, want, t.Dims)
	}
	if t.DType != String {
		t.Source = Raw(raw)
	}
}

// element reads a number and returns its bits.
func (p *parser) element(d DType) uint64 {
	switch d {
	case Float32, Complex64:
		return p.float(32, quietNaN32)
	case Float64, Complex128:
		return p.float(64, quietNaN64)
	}
	width := d.Bits()
	if width == 0 {
		p.fail(p.tok.at, "elements of type %v have no notation; write raw %q", d, "bytes")
	}
	if p.tok.kind != tokNumber {
		p.unexpected("an integer")
	}
	text, at := p.tok.text, p.tok.at
	p.next()
	signed, least, most := signedRange(d, width)
	if signed {
		v, err := strconv.ParseInt(text, 10, 64)
		if err == nil && least <= v && v <= int64(most) {
			return uint64(v)
		}
	} else if v, err := parseUnsigned(text); err == nil && v <= most {
		return v
	}
	p.fail(at, "got %q, wanted an integer of type %v, from %d to %d", shorten(text), d, least, most)
	return 0
}

// parseUnsigned reads a decimal or hexadecimal number.
func parseUnsigned(text string) (uint64, error) {
	if digits, hex := strings.CutPrefix(text, "0x"); hex {
		return strconv.ParseUint(digits, 16, 64)
	}
	return strconv.ParseUint(text, 10, 64)
}

// signedRange returns the integers that an element of d is written as. Narrow floats are
// written as the unsigned integer of their bits.
func signedRange(d DType, width int) (signed bool, least int64, most uint64) {
	switch d {
	case Int8, Int16, Int32, Int64, Int4, Int2:
		return true, math.MinInt64 >> (64 - width), 1<<(width-1) - 1
	}
	return false, 0, math.MaxUint64 >> (64 - width)
}

// sparseParts reads "{values, indices}".
func (p *parser) sparseParts(at int, t Type, name string) *Sparse {
	s := &Sparse{Dims: p.fixedDims(at, t)}
	_, err := (&TensorData{DType: t.DType, Dims: s.Dims}).Bytes()
	p.check(at, err)
	p.expect("{")
	s.Values = p.part()
	p.expect(",")
	s.Indices = p.part()
	p.expect("}")
	if s.Values.DType != t.DType {
		p.fail(at, "a sparse tensor of type %v has values of type %v", t.DType, s.Values.DType)
	}
	if name != "" {
		s.Values.Name = name
	}
	return s
}

// part reads one of the dense tensors of a sparse one.
func (p *parser) part() *TensorData {
	at := p.tok.at
	value, typ := p.typeOrTensor()
	t, ok := value.(*TensorData)
	if !ok {
		p.fail(at, "got a value of type %s, wanted a tensor", typ)
	}
	return t
}
