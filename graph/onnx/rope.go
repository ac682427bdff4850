package onnx

import (
	"bufio"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// rope is an encoded message in parts: small ones are copied into buffers, large
// ones are references, so that a model's weights are not copied to be written.
type rope struct {
	parts [][]byte
	tail  []byte // the part being filled
	size  int64
}

// largePart is the least size of bytes that are referred to, a few pages: below it a copy costs
// less than a part of its own.
const largePart = 16 << 10

// raw appends encoded bytes.
func (r *rope) raw(b []byte) {
	r.size += int64(len(b))
	if len(b) < largePart {
		r.tail = append(r.tail, b...)
		return
	}
	r.flush()
	r.parts = append(r.parts, b)
}

func (r *rope) flush() {
	if n := len(r.tail); n > 0 {
		r.parts = append(r.parts, r.tail[:n:n])
		r.tail = r.tail[n:]
	}
}

func (r *rope) tag(num protowire.Number, typ protowire.Type) {
	r.varint(protowire.EncodeTag(num, typ))
}

func (r *rope) varint(v uint64) {
	n := len(r.tail)
	r.tail = protowire.AppendVarint(r.tail, v)
	r.size += int64(len(r.tail) - n)
}

// bytes appends a length-delimited field.
func (r *rope) bytes(num protowire.Number, b []byte) {
	r.tag(num, protowire.BytesType)
	r.varint(uint64(len(b)))
	r.raw(b)
}

// text appends a string field, empty or not.
func (r *rope) text(num protowire.Number, s string) {
	r.tag(num, protowire.BytesType)
	r.varint(uint64(len(s)))
	r.size += int64(len(s))
	r.tail = append(r.tail, s...)
}

// optText appends a string field unless it is empty.
func (r *rope) optText(num protowire.Number, s string) {
	if s != "" {
		r.text(num, s)
	}
}

// number appends an integer field, zero or not.
func (r *rope) number(num protowire.Number, v int64) {
	r.tag(num, protowire.VarintType)
	r.varint(uint64(v))
}

// optNumber appends an integer field unless it is zero.
func (r *rope) optNumber(num protowire.Number, v int64) {
	if v != 0 {
		r.number(num, v)
	}
}

// mark is where the contents of a message field begin.
type mark struct {
	parts, tail int
	size        int64
}

// begin starts a message field, which end completes.
func (r *rope) begin(num protowire.Number) mark {
	r.tag(num, protowire.BytesType)
	return mark{len(r.parts), len(r.tail), r.size}
}

// end puts the length before the contents that were appended since m.
func (r *rope) end(m mark) {
	var buf [10]byte
	length := protowire.AppendVarint(buf[:0], uint64(r.size-m.size))
	r.size += int64(len(length))
	if len(r.parts) == m.parts {
		r.tail = slices.Insert(r.tail, m.tail, length...)
		return
	}
	// The buffer was closed since: the contents begin inside that part or at its
	// end, never at its start, where the field's tag is.
	first := r.parts[m.parts]
	r.parts[m.parts] = first[:m.tail:m.tail]
	insert := [][]byte{slices.Clone(length)}
	if m.tail < len(first) {
		insert = append(insert, first[m.tail:])
	}
	r.parts = slices.Insert(r.parts, m.parts+1, insert...)
}

// WriteTo writes the message.
func (r *rope) WriteTo(w io.Writer) (int64, error) {
	r.flush()
	var total int64
	for _, p := range r.parts {
		n, err := w.Write(p)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// contents returns the message in one piece.
func (r *rope) contents() []byte {
	if len(r.parts) == 0 {
		return r.tail
	}
	r.flush()
	b := make([]byte, 0, r.size)
	for _, p := range r.parts {
		b = append(b, p...)
	}
	return b
}

// strict makes an error of a write that takes less than it was given and does not say why; a
// bufio.Writer would retry forever.
type strict struct{ w io.Writer }

func (s strict) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// buffered gathers small writes.
func buffered(w io.Writer) *bufio.Writer {
	const size = 256 << 10
	return bufio.NewWriterSize(strict{w}, size)
}
