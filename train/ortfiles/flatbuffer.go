package ortfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A flatbuffer is a tree of tables and vectors that refer to each other by offsets; all numbers are
// little-endian. https://flatbuffers.dev/internals
//
// A table begins with the distance back to its vtable, which has its own size, the table's, and for
// each field where in the table it is, 0 if it is absent. Strings and vectors begin with their length.

// errCut says that an offset leads out of the file.
var errCut = errors.New("an offset leads out of the file: it is cut off, or no checkpoint")

// buffer is a flatbuffer. After an error, which is the first one, every read gives zero.
type buffer struct {
	data []byte
	err  error
}

// table is a place of a table; 0 means that it is absent.
type table int

// fail remembers the first error.
func (b *buffer) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// bytes returns n bytes from a place on.
func (b *buffer) bytes(at, n int) []byte {
	if b.err == nil && (at < 0 || n < 0 || n > len(b.data) || at > len(b.data)-n) {
		b.err = errCut
	}
	if b.err != nil {
		return make([]byte, min(max(n, 0), 8)) // zeros: all numbers have at most 8 bytes
	}
	return b.data[at : at+n : at+n]
}

func (b *buffer) uint16(at int) int  { return int(binary.LittleEndian.Uint16(b.bytes(at, 2))) }
func (b *buffer) uint32(at int) int  { return int(binary.LittleEndian.Uint32(b.bytes(at, 4))) }
func (b *buffer) int32(at int) int32 { return int32(binary.LittleEndian.Uint32(b.bytes(at, 4))) }
func (b *buffer) int64(at int) int64 { return int64(binary.LittleEndian.Uint64(b.bytes(at, 8))) }

// root returns the first table of a buffer with an identifier.
func (b *buffer) root(identifier string) table {
	if got := string(b.bytes(4, len(identifier))); b.err == nil && got != identifier {
		b.fail("its identifier is %q; wanted %q", got, identifier)
	}
	return table(b.uint32(0))
}

// field returns the place of a field of a table, 0 if it is absent.
func (b *buffer) field(t table, index int) int {
	if t == 0 {
		return 0
	}
	vtable := int(t) - int(b.int32(int(t)))
	const header, entry = 4, 2
	if at := header + entry*index; at+entry <= b.uint16(vtable) {
		if offset := b.uint16(vtable + at); offset != 0 {
			return int(t) + offset
		}
	}
	return 0
}

// refer returns the place that the field of a table refers to, 0 if it is absent.
func (b *buffer) refer(t table, index int) int {
	at := b.field(t, index)
	if at == 0 {
		return 0
	}
	return at + b.uint32(at)
}

func (b *buffer) table(t table, index int) table { return table(b.refer(t, index)) }

// blob returns a vector of bytes or a string.
func (b *buffer) blob(t table, index int) []byte {
	at := b.refer(t, index)
	if at == 0 {
		return nil
	}
	n := b.uint32(at)
	if b.err != nil {
		return nil
	}
	data := b.bytes(at+4, n)
	if b.err != nil {
		return nil
	}
	return data
}

// text returns a string of at most most bytes.
func (b *buffer) text(t table, index, most int) string {
	data := b.blob(t, index)
	if len(data) > most {
		b.fail("a name has %d bytes; at most %d are read", len(data), most)
		return ""
	}
	return string(data)
}

// length returns where the elements of a vector are, and how many there are.
func (b *buffer) length(t table, index, size int) (at, n int) {
	at = b.refer(t, index)
	if at == 0 {
		return 0, 0
	}
	n = b.uint32(at)
	if b.err == nil && n > (len(b.data)-at)/size {
		b.err = errCut
	}
	if b.err != nil {
		return 0, 0
	}
	return at + 4, n
}

// tables returns the tables of a vector.
func (b *buffer) tables(t table, index int) []table {
	at, n := b.length(t, index, 4)
	list := make([]table, n)
	for i := range list {
		list[i] = table(at + 4*i + b.uint32(at+4*i))
	}
	return list
}

// int64s returns the numbers of a vector of at most most.
func (b *buffer) int64s(t table, index, most int) []int64 {
	at, n := b.length(t, index, 8)
	if n > most {
		b.fail("a tensor has %d dims; at most %d are read", n, most)
		return nil
	}
	list := make([]int64, n)
	for i := range list {
		list[i] = b.int64(at + 8*i)
	}
	return list
}

// fieldInt32 returns a field; 0 if it is absent. So do the others.
func (b *buffer) fieldInt32(t table, index int) int32 {
	if at := b.field(t, index); at != 0 {
		return b.int32(at)
	}
	return 0
}

func (b *buffer) fieldInt64(t table, index int) int64 {
	if at := b.field(t, index); at != 0 {
		return b.int64(at)
	}
	return 0
}

func (b *buffer) fieldFloat(t table, index int) float32 {
	return math.Float32frombits(uint32(b.fieldInt32(t, index)))
}

func (b *buffer) fieldBool(t table, index int) bool {
	at := b.field(t, index)
	return at != 0 && b.bytes(at, 1)[0] != 0
}
