package torchsnapshot

import (
	"bufio"
	"encoding/binary"
	"math"
	"strings"
)

// The opcodes of pickles that are written: of protocol 2, and known to the reader of memory_viz
// (Lib/pickletools.py of CPython describes them).
const (
	opProto      = 0x80
	opMark       = '('
	opEmptyDict  = '}'
	opEmptyList  = ']'
	opAppends    = 'e'
	opSetItems   = 'u'
	opTuple2     = 0x86
	opUnicode    = 'X'
	opInt1       = 'K'
	opInt2       = 'M'
	opInt4       = 'J'
	opLong1      = 0x8a
	opTrue       = 0x88
	opFalse      = 0x89
	opLongBinPut = 'r'
	opLongBinGet = 'j'
	opStop       = '.'
)

// batch is how many items are appended to a list at once: a page's reader passes them as arguments of a
// function, and engines limit these to some ten thousands. CPython's pickler has the same number.
const batch = 1000

// pickler writes a pickle in one pass. Errors stay in the writer.
type pickler struct {
	w    *bufio.Writer
	memo uint32 // how many objects have been kept for later
	buf  [9]byte
}

func (p *pickler) op(code byte) { p.w.WriteByte(code) }

func (p *pickler) bool(v bool) {
	if v {
		p.op(opTrue)
	} else {
		p.op(opFalse)
	}
}

// int writes an integer in the shortest form.
func (p *pickler) int(n int64) {
	b := p.buf[:]
	switch {
	case n >= 0 && n <= math.MaxUint8:
		b = append(b[:0], opInt1, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		b = binary.LittleEndian.AppendUint16(append(b[:0], opInt2), uint16(n))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		b = binary.LittleEndian.AppendUint32(append(b[:0], opInt4), uint32(n))
	default:
		p.w.Write([]byte{opLong1, 8})
		b = binary.LittleEndian.AppendUint64(b[:0], uint64(n))
	}
	p.w.Write(b)
}

// text writes a text; readers refuse bytes that are not UTF-8.
func (p *pickler) text(s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	p.w.Write(binary.LittleEndian.AppendUint32(append(p.buf[:0], opUnicode), uint32(len(s))))
	p.w.WriteString(s)
}

// keep gives the object that was written last a number, for again.
func (p *pickler) keep() uint32 {
	p.w.Write(binary.LittleEndian.AppendUint32(append(p.buf[:0], opLongBinPut), p.memo))
	p.memo++
	return p.memo - 1
}

// again writes an object that was kept.
func (p *pickler) again(object uint32) {
	p.w.Write(binary.LittleEndian.AppendUint32(append(p.buf[:0], opLongBinGet), object))
}

// word is a text that is written often: once as itself, then by its number.
type word struct {
	text  string
	again uint32 // one past its number; 0 before it has one
}

func (p *pickler) word(w *word) {
	if w.again > 0 {
		p.again(w.again - 1)
		return
	}
	p.text(w.text)
	w.again = p.keep() + 1
}

// list begins a list; its items are written between calls of item and done.
func (p *pickler) list() list {
	p.op(opEmptyList)
	return list{p: p}
}

type list struct {
	p    *pickler
	open int // items since the last mark
}

// item is called before each item.
func (l *list) item() {
	if l.open == batch {
		l.done()
	}
	if l.open == 0 {
		l.p.op(opMark)
	}
	l.open++
}

// done ends the list.
func (l *list) done() {
	if l.open > 0 {
		l.p.op(opAppends)
	}
	l.open = 0
}
