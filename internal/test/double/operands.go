package double

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"memopt/executor/cuda/driver"
)

// margin is the number of bytes before and behind an operand that a kernel must not touch.
const margin = 256

// operands are copies of the memory that a launch was given, kept from launch to launch.
type operands struct {
	spans   []span
	buffers [][]byte
	call    struct {
		launch  launch
		message [256]byte
		args    [4096]byte
	}
}

// span is a stretch of device memory that one or more pointers of a launch cover.
type span struct {
	lo, hi uintptr
	write  bool
	device []byte // the device's contents
	buffer []byte // the kernel's memory: margin, copy, margin
	at     int    // where the copy starts in the buffer
}

// gather copies the memory that the pointers of a launch stand for, and returns the copies'
// addresses through set.
func (d *Double) gather(pointers []driver.Pointer, set func(i int, address uintptr)) error {
	o := &d.operands
	o.spans = o.spans[:0]
	for _, p := range pointers {
		if len(p.Data) > 0 {
			lo := driver.Address(p.Data)
			o.spans = append(o.spans, span{lo: lo, hi: lo + uintptr(len(p.Data)), write: p.Write})
		}
	}
	o.merge()
	for i := range o.spans {
		s := &o.spans[i]
		var err error
		if s.device, err = d.find(driver.Memory(s.lo, int(s.hi-s.lo))); err != nil {
			return err
		}
		o.copyIn(i)
	}
	for i, p := range pointers {
		if len(p.Data) == 0 {
			continue
		}
		lo := driver.Address(p.Data)
		at, _ := slices.BinarySearchFunc(o.spans, lo, func(s span, lo uintptr) int {
			if s.hi <= lo {
				return -1
			}
			return 1
		})
		s := &o.spans[at]
		set(i, uintptr(unsafe.Pointer(&s.buffer[s.at+int(lo-s.lo)])))
	}
	return nil
}

// merge joins spans that overlap: operands in place.
func (o *operands) merge() {
	slices.SortFunc(o.spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi)) })
	n := 0
	for _, s := range o.spans {
		if n > 0 && s.lo < o.spans[n-1].hi {
			last := &o.spans[n-1]
			last.hi, last.write = max(last.hi, s.hi), last.write || s.write
			continue
		}
		o.spans[n] = s
		n++
	}
	o.spans = o.spans[:n]
}

// copyIn copies span i to buffer i, at an address with the same alignment.
func (o *operands) copyIn(i int) {
	s := &o.spans[i]
	n := len(s.device) + 4*margin
	if i == len(o.buffers) {
		o.buffers = append(o.buffers, nil)
	}
	if len(o.buffers[i]) < n {
		o.buffers[i] = make([]byte, n)
	}
	s.buffer = o.buffers[i][:n]
	base := uintptr(unsafe.Pointer(&s.buffer[0]))
	s.at = margin + int((s.lo-base)%margin)
	fill(s.buffer[:s.at], poison)
	copy(s.buffer[s.at:], s.device)
	fill(s.buffer[s.at+len(s.device):], poison)
}

// scatter checks a kernel's changes to the copies, and copies back those that it may have made.
func (o *operands) scatter() error {
	for i := range o.spans {
		s := &o.spans[i]
		end := s.at + len(s.device)
		for j, v := range s.buffer {
			if v != poison && (j < s.at || j >= end) {
				return fmt.Errorf("byte %d of an operand of %d bytes has been written to", j-s.at, len(s.device))
			}
		}
		if !s.write {
			if !bytes.Equal(s.buffer[s.at:end], s.device) {
				return fmt.Errorf("an input of %d bytes has been written to", len(s.device))
			}
			continue
		}
		copy(s.device, s.buffer[s.at:end])
	}
	return nil
}
