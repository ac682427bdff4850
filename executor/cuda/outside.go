package cuda

import (
	enc "encoding/binary"
	"strconv"

	"memopt/executor"
	"memopt/executor/operand"
)

// outside learns from the device which element of an integer input a kernel could not use: the
// kernel stores the complement of the index of the first such element in a word that was 0. The
// host reads it after waiting for the device, or, if the step is captured, as a flag after the
// step.
type outside struct {
	d    *Device
	word [8]byte
}

// outsideBytes is the workspace that it takes.
const outsideBytes = 4

// A describer makes the error of an element that cannot be used. value is the element, or "" if it
// is no longer known.
type describer interface {
	describe(place int, value string) error
}

// describeFunc is a function as a describer.
type describeFunc func(place int, value string) error

func (f describeFunc) describe(place int, value string) error { return f(place, value) }

// begin returns the word for the kernel.
func (o *outside) begin(c *executor.Ctx, who describer) ([]byte, error) {
	if c.Flags != nil {
		return c.Flags.Add(func(word uint32) error { return c.Named(who.describe(int(^word), "")) }), nil
	}
	bad := c.Scratch(outsideBytes)
	return bad, o.d.Memory().Fill(bad, 0)
}

// end reads the word when the kernel has been launched on the elements of at. If at is nil, their
// values are not reported.
func (o *outside) end(c *executor.Ctx, at *executor.Tensor, bad []byte, who describer) error {
	if c.Flags != nil {
		return nil // after the step
	}
	if err := o.d.Memory().CopyOut(o.word[:outsideBytes], bad); err != nil {
		return err
	}
	word := enc.LittleEndian.Uint32(o.word[:])
	if word == 0 {
		return nil
	}
	place := int(^word)
	if at == nil {
		return who.describe(place, "")
	}
	size := operand.ElementBytes(at.DType)
	if err := o.d.Memory().CopyOut(o.word[:size], at.Data[place*size:(place+1)*size]); err != nil {
		return err
	}
	v := int64(enc.LittleEndian.Uint64(o.word[:]))
	if size == 4 {
		v = int64(int32(v))
	}
	return who.describe(place, strconv.FormatInt(v, 10))
}
