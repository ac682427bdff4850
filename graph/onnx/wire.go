package onnx

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// reader walks the fields of one encoded message.
type reader struct {
	rest []byte
	pos  int // offset of rest in the file, -1 if it is not in the file as it stands
}

// field is one field of an encoded message.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	num64 uint64 // value of a varint or of a fixed-width field
	body  []byte // contents of a length-delimited field
	raw   []byte // the whole field with its tag
	pos   int    // offset of raw in the file, or -1
}

var wireNames = map[protowire.Type]string{
	protowire.VarintType:     "varint",
	protowire.Fixed32Type:    "fixed32",
	protowire.Fixed64Type:    "fixed64",
	protowire.BytesType:      "length-delimited",
	protowire.StartGroupType: "group",
}

// at puts the offset before a message, where it is known.
func at(pos int, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if pos < 0 {
		return fmt.Errorf("%s", msg)
	}
	return fmt.Errorf("byte %d: %s", pos, msg)
}

// next reads a field; more is false at the end of the message.
func (r *reader) next(f *field) (more bool, err error) {
	if len(r.rest) == 0 {
		return false, nil
	}
	f.pos = r.pos
	num, typ, n := protowire.ConsumeTag(r.rest)
	if n < 0 {
		return false, r.fault("a field's tag", n)
	}
	f.num, f.typ = num, typ
	f.body, f.num64 = nil, 0
	tag := n
	value := r.rest[tag:]
	switch typ {
	case protowire.VarintType:
		f.num64, n = protowire.ConsumeVarint(value)
	case protowire.BytesType:
		f.body, n = protowire.ConsumeBytes(value)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(value)
		f.num64 = uint64(v)
	case protowire.Fixed64Type:
		f.num64, n = protowire.ConsumeFixed64(value)
	default:
		n = protowire.ConsumeFieldValue(num, typ, value)
	}
	if n < 0 {
		return false, r.fault(fmt.Sprintf("field %d (%s)", num, wireName(typ)), n)
	}
	n += tag
	f.raw, r.rest = r.rest[:n:n], r.rest[n:]
	if r.pos >= 0 {
		r.pos += n
	}
	return true, nil
}

func wireName(t protowire.Type) string {
	if name, ok := wireNames[t]; ok {
		return name
	}
	return fmt.Sprintf("wire type %d", t)
}

// fault explains a negative result of protowire.
func (r *reader) fault(what string, n int) error {
	err := protowire.ParseError(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return at(r.pos, "%s runs past the end of the data that holds it (%d bytes left)", what, len(r.rest))
	}
	// The module varies the space after its prefix from build to build.
	why := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
	return at(r.pos, "%s is malformed: %s", what, why)
}

// want checks the wire type of a field; the error names it as onnx.proto does.
func (f *field) want(t protowire.Type, what string) error {
	if f.typ == t {
		return nil
	}
	return at(f.pos, "%s is encoded as %s, wanted %s", what, wireName(f.typ), wireName(t))
}

// bytes returns the contents of a length-delimited field.
func (f *field) bytes(what string) ([]byte, error) {
	if err := f.want(protowire.BytesType, what); err != nil {
		return nil, err
	}
	return f.body, nil
}

// sub returns the contents of a message field.
func (f *field) sub(what string) (reader, error) {
	if err := f.want(protowire.BytesType, what); err != nil {
		return reader{}, err
	}
	return f.inside(), nil
}

// inside returns a reader of a length-delimited field's contents.
func (f *field) inside() reader {
	pos := -1
	if f.pos >= 0 {
		pos = f.pos + len(f.raw) - len(f.body)
	}
	return reader{rest: f.body, pos: pos}
}

// varint returns the value of an integer field.
func (f *field) varint(what string) (int64, error) {
	return int64(f.num64), f.want(protowire.VarintType, what)
}

// string returns the contents of a string field.
func (f *field) string(what string) (string, error) {
	b, err := f.bytes(what)
	return string(b), err
}

// keep adds a field to the Extra of its message.
func keep(extra *[]byte, f *field) {
	if *extra == nil {
		*extra = f.raw // capacity ends with the field: a second one makes a copy
		return
	}
	*extra = append(*extra, f.raw...)
}

// merged gathers the occurrences of a message field that should occur once.
type merged struct {
	reader
	seen bool
}

func (m *merged) add(f *field, what string) error {
	r, err := f.sub(what)
	if err != nil {
		return err
	}
	if !m.seen {
		m.reader, m.seen = r, true
		m.rest = m.rest[:len(m.rest):len(m.rest)]
		return nil
	}
	m.rest, m.pos = append(m.rest, r.rest...), -1
	return nil
}

// varints appends the elements of a repeated integer field, packed or not.
func varints[T int32 | int64 | uint64](dst []T, f *field, what string) ([]T, error) {
	if f.typ == protowire.VarintType {
		return append(dst, T(f.num64)), nil
	}
	r, err := f.sub(what)
	if err != nil {
		return dst, err
	}
	if cap(dst) == 0 {
		dst = make([]T, 0, countVarints(r.rest))
	}
	for len(r.rest) > 0 {
		v, n := protowire.ConsumeVarint(r.rest)
		if n < 0 {
			return dst, r.fault(what, n)
		}
		dst = append(dst, T(v))
		r.skip(n)
	}
	return dst, nil
}

func (r *reader) skip(n int) {
	r.rest = r.rest[n:]
	if r.pos >= 0 {
		r.pos += n
	}
}

// countVarints returns the number of varints in packed data: every one ends with
// the only byte below 0x80 that it has.
func countVarints(b []byte) int {
	n := 0
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// fixed appends the raw little-endian elements of a repeated fixed-width field,
// packed or not: their encoded form is ONNX's raw form.
func fixed(dst []byte, f *field, width int, what string) ([]byte, error) {
	single := protowire.Fixed32Type
	if width == 8 {
		single = protowire.Fixed64Type
	}
	if f.typ == single {
		return append(dst, f.raw[len(f.raw)-width:]...), nil
	}
	b, err := f.bytes(what)
	if err != nil {
		return dst, err
	}
	if len(b)%width != 0 {
		return dst, at(f.pos, "%s holds %d bytes, no multiple of %d", what, len(b), width)
	}
	return append(dst, b...), nil
}
