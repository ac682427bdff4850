package npz

import (
	"fmt"
	"strconv"
	"strings"

	"memopt/graph"
)

// magic begins a .npy file. Two bytes of version follow, then the header's length, in two bytes in
// version 1 and four bytes in versions 2 and 3, and the header: a Python dictionary.
const magic = "\x93NUMPY"

// maxHeader bounds a header's length; numpy's own bound for untrusted files is 10000.
const maxHeader = 1 << 16

// maxRank bounds the dims of an array. numpy has 64.
const maxRank = 64

// descrs has numpy's names of the types, little-endian.
var descrs = map[graph.DType]string{
	graph.Float16: "<f2", graph.Float32: "<f4", graph.Float64: "<f8", graph.Bool: "|b1",
	graph.Int8: "|i1", graph.Int16: "<i2", graph.Int32: "<i4", graph.Int64: "<i8",
	graph.Uint8: "|u1", graph.Uint16: "<u2", graph.Uint32: "<u4", graph.Uint64: "<u8",
}

// header is the description of an array in a .npy file.
type header struct {
	dtype   graph.DType
	swapped bool // big-endian
	fortran bool // the first dim runs fastest
	shape   []int
}

// setDescr sets the type from numpy's name.
func (h *header) setDescr(s string) error {
	if s == "" {
		return fmt.Errorf("header without a type")
	}
	for d, name := range descrs {
		if s[1:] == name[1:] && strings.Contains("<>=|", s[:1]) {
			h.dtype, h.swapped = d, s[0] == '>' && d.Bits() > 8
			return nil
		}
	}
	return fmt.Errorf("arrays of type %.40q are not supported", s)
}

// format returns the header as numpy writes it, padded so that the array starts at a multiple of
// 64.
func (h *header) format() []byte {
	shape := ""
	for _, d := range h.shape {
		shape += strconv.Itoa(d) + ", "
	}
	if len(h.shape) > 1 {
		shape = strings.TrimSuffix(shape, ", ")
	} else {
		shape = strings.TrimSuffix(shape, " ")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descrs[h.dtype], shape)
	const before = len(magic) + 4
	n := (before+len(text)+1+63)&^63 - before
	out := append([]byte(magic), 1, 0, byte(n), byte(n>>8))
	out = append(out, text...)
	for len(out) < before+n-1 {
		out = append(out, ' ')
	}
	return append(out, '\n')
}

// parseHeader reads the dictionary.
func parseHeader(text string) (h header, err error) {
	p := &parser{text: text}
	seen := map[string]bool{}
	p.want("{")
	for p.err == nil && !p.skip("}") {
		key := p.str()
		p.want(":")
		switch {
		case seen[key]:
			p.fail("key %.40q twice", key)
		case key == "descr":
			if s := p.str(); p.err == nil {
				p.err = h.setDescr(s)
			}
		case key == "fortran_order":
			if h.fortran = p.skip("True"); !h.fortran {
				p.want("False")
			}
		case key == "shape":
			h.shape = p.tuple()
		default:
			p.fail("key %.40q", key)
		}
		seen[key] = true
		if !p.skip(",") {
			p.want("}")
			break
		}
	}
	if p.space(); p.err == nil && p.text != "" {
		p.fail("%.20q behind the dictionary", p.text)
	}
	if p.err == nil && len(seen) != 3 {
		p.fail("wanted the keys descr, fortran_order and shape")
	}
	return h, p.err
}

// parser reads the few Python literals of a header. After an error its methods return at once.
type parser struct {
	text string
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("header: "+format, args...)
	}
}

func (p *parser) space() { p.text = strings.TrimLeft(p.text, " \t\r\n") }

// skip steps over a token and reports whether it was there.
func (p *parser) skip(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.text, token)
	p.text = rest
	return ok
}

func (p *parser) want(token string) {
	if !p.skip(token) {
		p.fail("%.20q, wanted %q", p.text, token)
	}
}

// str reads a string without escapes.
func (p *parser) str() string {
	p.space()
	if p.text == "" || p.text[0] != '\'' && p.text[0] != '"' {
		p.fail("%.20q, wanted a string", p.text)
		return ""
	}
	s, rest, ok := strings.Cut(p.text[1:], p.text[:1])
	if !ok || strings.Contains(s, `\`) {
		p.fail("%.20q, wanted a plain string", p.text)
	}
	p.text = rest
	return s
}

// tuple reads a tuple of numbers.
func (p *parser) tuple() []int {
	p.want("(")
	shape := []int{}
	for p.err == nil && !p.skip(")") {
		p.space()
		n := 0
		for n < len(p.text) && p.text[n] >= '0' && p.text[n] <= '9' {
			n++
		}
		d, err := strconv.Atoi(p.text[:n])
		if err != nil {
			p.fail("%.20q, wanted a dim", p.text)
			break
		}
		p.text = strings.TrimPrefix(p.text[n:], "L") // the suffix of Python 2's long integers
		if shape = append(shape, d); len(shape) > maxRank {
			p.fail("more than %d dims", maxRank)
		}
		if !p.skip(",") {
			p.want(")")
			break
		}
	}
	return shape
}
