package graph

import (
	"bytes"
	"strconv"
)

// FormatOptions control Format. The zero value prints the whole file, with large tensors elided.
type FormatOptions struct {
	// Types prints the best known type of every value, inference included, in
	// place of the types that the file declares.
	Types bool
	// MaxElements is the most elements of a tensor whose contents are printed; those of larger ones
	// are elided as {...}. 0 means DefaultMaxElements, a negative number all contents.
	MaxElements int
	// Extra prints the wire fields that have no Go field, as strings of bytes.
	Extra bool
}

// DefaultMaxElements is the limit that FormatOptions.MaxElements 0 stands for.
const DefaultMaxElements = 64

// Format prints a model in ONNX's textual syntax. [Parse] reads the text back to an equal model,
// except for parts that the options leave out, for the encoded forms in Wire, and for dims whose
// computation failed, which print as unknown.
//
// The grammar is ONNX's own (docs/Syntax.md of onnx/onnx): "float" is the type of a
// scalar, "float[]" of a tensor of unknown rank. It is extended where ONNX has no
// notation:
//
//   - A name that is not an identifier, or that is a word of the syntax (float, seq, nan),
//     is quoted wherever it stands. In quotes, \" \\ \n \r \t stand for one
//     character, \xHH for one byte.
//   - A dim that is an expression stands in parentheses: float[(2*batch + 1), 64].
//     The text is symbolic's.
//   - What describes a part stands in front of it: <doc_string: "...",
//     metadata_props: ["key": "value"], extra: "wire fields"> before a graph, node,
//     attribute or declared value, and between "=" and the contents of a tensor.
//   - ? is a type that is not stated, undefined an element type of number 0, and
//     dtype(99) one of a number without a name.
//   - sparse_tensor(float[3, 4]) name = {values, indices} is a sparse tensor: two
//     dense ones.
//   - Contents are {1, 2}, ["location": "file", "offset": "0"] for external
//     data, {...} where they are elided, = raw "bytes" where they have no elements'
//     form. {} holds no contents. 16-bit and narrower floats are written as
//     the integer of their bits; nan(0x7fc00001) is a NaN by its bits.
//   - A list of tensors, graphs, sparse tensors or types is [a, b]; an empty list
//     states its type, as in axes: ints = [].
//   - Device configurations of a model are configuration: ["pair" : 2 ["gpu0", "gpu1"]], a name, a
//     number of devices, their names. Those of a node stand among what describes it:
//     device_configurations: ["pair" @ 0 ["x" [0, -1] {-1: [1, 2]} [1: [4 : 2]]]] is stage 0, and "x"
//     on device 0 and the group -1, its axis 1 of 4 blocks in 2 shards; blocks are a number, a quoted
//     symbol, or ?.
//   - A comment runs from # to the end of the line.
func Format(m *Model, opts FormatOptions) string {
	p := newPrinter(opts)
	p.model(m)
	return string(p.buf)
}

// printer builds a text.
type printer struct {
	buf    []byte
	opts   FormatOptions
	indent int
}

func newPrinter(opts FormatOptions) *printer {
	if opts.MaxElements == 0 {
		opts.MaxElements = DefaultMaxElements
	}
	return &printer{opts: opts}
}

func (p *printer) str(s string)   { p.buf = append(p.buf, s...) }
func (p *printer) name(s string)  { p.buf = appendName(p.buf, s) }
func (p *printer) quote(s string) { p.buf = appendQuoted(p.buf, s) }
func (p *printer) int(v int64)    { p.buf = strconv.AppendInt(p.buf, v, 10) }

func (p *printer) newline() {
	p.str("\n")
	for range p.indent {
		p.str("  ")
	}
}

// lineWidth is the widest line of a list; a longer list is broken into one line per element.
const lineWidth = 110

// row prints n elements between two brackets on one line.
func (p *printer) row(open string, n int, end string, elem func(i int)) {
	p.str(open)
	for i := range n {
		if i > 0 {
			p.str(", ")
		}
		elem(i)
	}
	p.str(end)
}

// fill prints n elements between two brackets, on as many lines as they need.
func (p *printer) fill(open string, n int, end string, elem func(i int)) {
	p.indent += 2
	p.row(open, n, end, func(i int) {
		if i%8 == 7 && p.column() > lineWidth {
			p.buf = p.buf[:len(p.buf)-1] // the blank behind the comma
			p.newline()
		}
		elem(i)
	})
	p.indent -= 2
}

// list prints n elements between two brackets, on one line if they fit, else one on
// each. Where an element has lines of its own it stays on one: printing it a second time
// would take exponential time in nested graphs.
func (p *printer) list(open string, n int, end string, elem func(i int)) {
	p.str(open)
	start, lines := len(p.buf), false
	for i := range n {
		if i > 0 {
			p.str(", ")
		}
		elem(i)
		if i == 0 || lines || p.column() <= lineWidth {
			continue
		}
		if lines = bytes.IndexByte(p.buf[start:], '\n') >= 0; !lines {
			p.buf = p.buf[:start]
			p.brokenList(n, elem)
			break
		}
	}
	p.str(end)
}

func (p *printer) brokenList(n int, elem func(i int)) {
	p.indent += 2
	for i := range n {
		if i > 0 {
			p.str(",")
		}
		p.newline()
		elem(i)
	}
	p.indent -= 2
}

// column returns the width of the current line, counted no further than needed.
func (p *printer) column() int {
	most := min(len(p.buf), lineWidth+1)
	for i := range most {
		if p.buf[len(p.buf)-1-i] == '\n' {
			return i
		}
	}
	return most
}

// field is an entry of a list of other data.
type field struct {
	key   string
	value func()
}

// fields prints "<key: value, ...>", or an empty text for an empty list.
func (p *printer) fields(list []field) {
	if len(list) == 0 {
		return
	}
	p.list("<", len(list), ">", func(i int) {
		p.str(list[i].key)
		p.str(": ")
		list[i].value()
	})
}

func (p *printer) textField(list []field, key, text string) []field {
	if text == "" {
		return list
	}
	return append(list, field{key, func() { p.quote(text) }})
}

func (p *printer) notesFields(list []field, doc string, meta []Property, extra []byte) []field {
	list = p.textField(list, "doc_string", doc)
	if len(meta) > 0 {
		list = append(list, field{"metadata_props", func() { p.properties(meta) }})
	}
	if p.opts.Extra && len(extra) > 0 {
		list = append(list, field{"extra", func() { p.quote(string(extra)) }})
	}
	return list
}

// notes prints the description of the part that follows, and says whether there is any.
func (p *printer) notes(doc string, meta []Property, extra []byte) bool {
	if doc == "" && len(meta) == 0 && (len(extra) == 0 || !p.opts.Extra) {
		return false
	}
	p.fields(p.notesFields(nil, doc, meta, extra))
	return true
}

// inlineNotes is notes with a space behind them.
func (p *printer) inlineNotes(doc string, meta []Property, extra []byte) {
	if p.notes(doc, meta, extra) {
		p.str(" ")
	}
}

func (p *printer) properties(list []Property) {
	p.row("[", len(list), "]", func(i int) {
		p.inlineNotes("", nil, list[i].Extra)
		p.quote(list[i].Key)
		p.str(": ")
		p.quote(list[i].Value)
	})
}

func (p *printer) opsets(list []Opset) {
	p.row("[", len(list), "]", func(i int) {
		p.inlineNotes("", nil, list[i].Extra)
		p.quote(list[i].Domain)
		p.str(" : ")
		p.int(list[i].Version)
	})
}
