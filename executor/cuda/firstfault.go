package cuda

import (
	enc "encoding/binary"
	"strconv"

	"memopt/executor"
)

// firstFault learns from a kernel which element was first to be refused. Kernels raise a word, which is 0 at first, to the complement
// of the element's number; a run waits for the device to see it.
type firstFault struct {
	d *Device
	// report makes the error of an element; value is what it is, or "" where that is not known.
	report func(place int, value string) error
	word   [8]byte
}

// firstFaultBytes is the workspace of a word.
const firstFaultBytes = 64

// begin returns the word for a run.
func (f *firstFault) begin(c *executor.Ctx) ([]byte, error) {
	bad := c.Scratch(4)
	return bad, f.d.Memory().Fill(bad, 0)
}

// check returns the error of the element that was first to be refused, nil where none was. at has the elements where they are of
// type int64, else nil.
func (f *firstFault) check(bad []byte, at *executor.Tensor) error {
	if err := f.d.Memory().CopyOut(f.word[:4], bad); err != nil {
		return err
	}
	word := enc.LittleEndian.Uint32(f.word[:])
	if word == 0 {
		return nil
	}
	place := int(^word)
	if at == nil {
		return f.report(place, "")
	}
	if err := f.d.Memory().CopyOut(f.word[:], at.Data[8*place:8*place+8]); err != nil {
		return err
	}
	return f.report(place, strconv.FormatInt(int64(enc.LittleEndian.Uint64(f.word[:])), 10))
}
