package graph

import (
	"math"
	"strconv"
	"strings"
)

// listTypes has the name of the type of a list of each kind of element.
var listTypes = map[string]string{
	typeFloat: typeFloats, typeInt: typeInts, typeString: typeStrings, typeTensor: typeTensors,
	typeGraph: typeGraphs, typeSparse: typeSparses, typeProto: typeProtos,
}

// attrRest reads the text behind an attribute's name: ": type = value" or "= value".
func (p *parser) attrRest(g *Graph, name string) Attr {
	at := p.tok.at
	if name == "" {
		p.fail(at, "an attribute cannot have an empty name")
	}
	stated := ""
	if p.accept(":") {
		stated = p.attrType()
	}
	p.expect("=")
	a := Attr{Name: name}
	if p.accept("@") {
		a.Ref = p.word("an attribute of the function")
		if a.Ref == "" {
			p.fail(at, "a reference to an attribute cannot be empty")
		}
		return a
	}
	if p.accept("[") {
		a.Value = p.listValue(g, stated)
		return a
	}
	at = p.tok.at
	value, typ := p.single(g)
	if stated == typeFloat && typ == typeInt {
		value, typ = float32(value.(int64)), typeFloat
	}
	if stated != "" && stated != typ {
		p.fail(at, "attribute %q: got a value of type %s, wanted %s", shorten(name), typ, stated)
	}
	a.Value = value
	return a
}

// attrType reads the stated type of an attribute.
func (p *parser) attrType() string {
	at := p.tok.at
	typ := p.ident("the type of an attribute")
	for single, list := range listTypes {
		if typ == single || typ == list {
			return typ
		}
	}
	p.fail(at, "got %q, wanted the type of an attribute: float, int, string, tensor, graph, sparse_tensor, "+
		"type_proto or the plural of one", shorten(typ))
	return ""
}

// listValue reads a list behind its opening bracket.
func (p *parser) listValue(g *Graph, stated string) any {
	at := p.tok.at
	wanted := ""
	for single, list := range listTypes {
		if list == stated {
			wanted = single
		}
	}
	if stated != "" && wanted == "" {
		p.fail(at, "got a list, wanted a value of type %s", stated)
	}
	var values []any
	p.items("]", func() {
		place := p.tok.at
		value, typ := p.single(g)
		if typ == typeInt && wanted == typeFloat {
			value, typ = float32(value.(int64)), typeFloat
		}
		if wanted == "" {
			wanted = typ
		}
		if typ != wanted {
			p.fail(place, "got an element of type %s, wanted %s as the others have", typ, wanted)
		}
		values = append(values, value)
	})
	if wanted == "" {
		p.fail(at, "an empty list must state its type, as in axes: ints = []")
	}
	return listOf(wanted, values)
}

// listOf makes a list of the type that attributes hold.
func listOf(typ string, values []any) any {
	switch typ {
	case typeInt:
		return typedList[int64](values)
	case typeFloat:
		return typedList[float32](values)
	case typeString:
		return typedList[string](values)
	case typeTensor:
		return typedList[*TensorData](values)
	case typeSparse:
		return typedList[*Sparse](values)
	case typeGraph:
		return typedList[*Graph](values)
	}
	return typedList[Type](values)
}

func typedList[T any](values []any) []T {
	list := make([]T, len(values))
	for i, v := range values {
		list[i] = v.(T)
	}
	return list
}

// single reads one value and returns the name of its type.
func (p *parser) single(g *Graph) (any, string) {
	switch {
	case p.tok.kind == tokNumber, p.tok.kind == tokIdent && isFloatWord(p.tok.text):
		return p.numberValue()
	case p.atType():
		return p.typeOrTensor()
	case p.tok.kind == tokQuoted && !p.beforeParenthesis():
		return p.quoted("a string"), typeString
	case p.atWord(), p.is("<"):
		return p.graph(g), typeGraph
	}
	p.unexpected("the value of an attribute")
	return nil, ""
}

// beforeParenthesis reports whether the current token stands in front of one: then a
// quoted text names a graph.
func (p *parser) beforeParenthesis() bool {
	tok, at := p.tok, p.at
	p.next()
	found := p.is("(")
	p.tok, p.at = tok, at
	return found
}

// numberValue reads an integer or, where it has a point, an exponent or no digits, a
// float.
func (p *parser) numberValue() (any, string) {
	if !strings.ContainsAny(p.tok.text, ".eEnN") || isHex(p.tok.text) {
		return p.integer(), typeInt
	}
	return math.Float32frombits(uint32(p.float(32, quietNaN32))), typeFloat
}

func isHex(s string) bool { return strings.HasPrefix(s, "0x") }

// float reads a number of 32 or 64 bits and returns its bits.
func (p *parser) float(size int, quiet uint64) uint64 {
	text := p.tok.text
	at := p.tok.at
	if p.tok.kind != tokNumber && !(p.tok.kind == tokIdent && isFloatWord(text)) {
		p.unexpected("a number")
	}
	p.next()
	unsigned := strings.TrimLeft(text, "+-")
	switch {
	case len(text)-len(unsigned) > 1 || isHex(unsigned) || strings.Contains(text, "_"):
		p.fail(at, "got %q, wanted a number", shorten(text))
	case strings.EqualFold(unsigned, "nan"):
		return p.nan(size, quiet, text[0] == '-')
	}
	f, err := strconv.ParseFloat(text, size)
	if err != nil {
		p.fail(at, "got %q, wanted a number of %d bits", shorten(text), size)
	}
	if size == 32 {
		return uint64(math.Float32bits(float32(f)))
	}
	return math.Float64bits(f)
}

// nan reads the bits that may follow "nan", as in nan(0x7fc00001).
func (p *parser) nan(size int, quiet uint64, negative bool) uint64 {
	if !p.is("(") {
		if negative {
			quiet |= 1 << (size - 1)
		}
		return quiet
	}
	p.next()
	at := p.tok.at
	bits, err := strconv.ParseUint(strings.TrimPrefix(p.tok.text, "0x"), 16, size)
	nan := math.IsNaN(math.Float64frombits(bits))
	if size == 32 {
		nan = math.Float32frombits(uint32(bits)) != math.Float32frombits(uint32(bits))
	}
	if err != nil || p.tok.kind != tokNumber || !isHex(p.tok.text) || !nan || negative {
		p.fail(at, "got %s, wanted the %d bits of a NaN in hexadecimal", p.tok, size)
	}
	p.next()
	p.expect(")")
	return bits
}

// typeOrTensor reads a type, or the tensor that starts with it.
func (p *parser) typeOrTensor() (any, string) {
	at := p.tok.at
	t := p.typ()
	if !p.is("{") && !p.is("=") && !p.atWord() {
		return t, typeProto
	}
	name := ""
	if p.atWord() {
		name = p.word("the name of a tensor")
	}
	p.accept("=")
	if t.Form == FormSparse {
		return p.sparseParts(at, t, name), typeSparse
	}
	return p.dense(at, t, name), typeTensor
}
