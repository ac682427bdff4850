package cuda

import (
	enc "encoding/binary"

	"memopt/executor"
)

// firstFault learns from a kernel which element was first to be refused. Kernels raise a word, which is 0 at first, to the complement
// of the element's number; a run waits for the device to see it.
type firstFault struct {
	d      *Device
	report func(c *executor.Ctx, place int) error // makes the error of an element
	word   [8]byte
}

// firstFaultBytes is the workspace of a word.
const firstFaultBytes = 64

// begin returns the word for a run.
func (f *firstFault) begin(c *executor.Ctx) ([]byte, error) {
	bad := c.Scratch(4)
	return bad, f.d.Memory().Fill(bad, 0)
}

// check returns the error of the element that was first to be refused, nil where none was.
func (f *firstFault) check(c *executor.Ctx, bad []byte) error {
	if err := f.d.Memory().CopyOut(f.word[:4], bad); err != nil {
		return err
	}
	word := enc.LittleEndian.Uint32(f.word[:])
	if word == 0 {
		return nil
	}
	return f.report(c, int(^word))
}

// integer returns an element of an int64 tensor.
func (f *firstFault) integer(t *executor.Tensor, i int) (int64, error) {
	err := f.d.Memory().CopyOut(f.word[:], t.Data[8*i:8*i+8])
	return int64(enc.LittleEndian.Uint64(f.word[:])), err
}
