package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// reverseSequence reverses the first elements along the time axis: in each sequence of the batch
// axis, as many as input 1 says. The two axes are the first two, in either order.
// https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
type reverseSequence struct {
	bytes      int
	seq        operand.Sequences
	dst, src   []byte
	rows, line int // second axis, and bytes of an element of it
}

func newReverseSequence(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	seq, err := operand.NewSequences(p)
	return &reverseSequence{bytes: size, seq: seq}, err
}

// Run copies line by line.
func (k *reverseSequence) Run(c *executor.Ctx) error {
	y, err := k.seq.Begin(c)
	if y == nil {
		return err
	}
	x := c.In(0)
	k.dst, k.src, k.rows = y.Data, x.Data, x.Shape[1]
	k.line = product(x.Shape[2:]) * k.bytes
	c.Parallel(k.seq.Batch*k.seq.Times, 1+(64<<10)/k.line, k)
	return nil
}

// Range copies the lines lo..hi-1.
func (k *reverseSequence) Range(lo, hi int) {
	for i := lo; i < hi; i++ {
		from := i
		if k.seq.TimeFirst {
			if t, n := i/k.rows, k.seq.Lens[i%k.rows]; t < n {
				from = (n-1-t)*k.rows + i%k.rows
			}
		} else if t, n := i%k.rows, k.seq.Lens[i/k.rows]; t < n {
			from = i - t + n - 1 - t
		}
		copy(k.dst[i*k.line:(i+1)*k.line], k.src[from*k.line:])
	}
}

// triluKernel keeps the upper or lower triangle of the matrices in the last two axes, up to and
// with diagonal k (input 1), and clears the rest. https://onnx.ai/onnx/operators/onnx__Trilu.html
type triluKernel struct {
	operand.Triangle
	bytes    int
	dst, src []byte
	same     bool
}

func newTrilu(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &triluKernel{Triangle: operand.NewTriangle(p), bytes: size}, nil
}

// Run goes over the rows of all matrices.
func (k *triluKernel) Run(c *executor.Ctx) error {
	y, err := k.Begin(c)
	if y == nil {
		return err
	}
	x := c.In(0)
	k.dst, k.src, k.same = y.Data, x.Data, operand.SameMemory(x.Data, y.Data)
	row := k.Cols * k.bytes
	c.Parallel(len(y.Data)/row, 1+(64<<10)/row, k)
	return nil
}

// Range does the rows lo..hi-1.
func (k *triluKernel) Range(lo, hi int) {
	row := k.Cols * k.bytes
	for i := lo; i < hi; i++ {
		d, s := k.dst[i*row:(i+1)*row], k.src[i*row:(i+1)*row]
		// Upper: the columns from r+diag on. Lower: those up to r+diag.
		at, to := i%k.Rows+k.Diag, k.Cols
		if !k.Upper {
			at, to = 0, at+1
		}
		at, to = min(max(at, 0), k.Cols)*k.bytes, min(max(to, 0), k.Cols)*k.bytes
		clear(d[:at])
		if !k.same {
			copy(d[at:to], s[at:to])
		}
		clear(d[to:])
	}
}

// tensorScatter writes an update into a cache along an axis.
// https://onnx.ai/onnx/operators/onnx__TensorScatter.html
type tensorScatter struct {
	wholeCopy
	bytes    int
	at       operand.CacheUpdate
	dst, src []byte
}

func newTensorScatter(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0, 1)
	if err != nil {
		return nil, err
	}
	at, err := operand.NewCacheUpdate(p)
	return &tensorScatter{bytes: size, at: at}, err
}

// Run copies the cache, unless it is in place, and writes the update.
func (k *tensorScatter) Run(c *executor.Ctx) error {
	y, err := k.at.Begin(c)
	if y == nil {
		return err
	}
	x, u := c.In(0), c.In(1)
	if err := k.copyUnlessSame(c, y.Data, x.Data); err != nil {
		return err
	}
	k.dst, k.src = y.Data, u.Data
	if part := k.at.Update * k.at.Inner * k.bytes; part > 0 {
		c.Parallel(x.Shape[0]*k.at.Outer, 1+(64<<10)/part, (*tensorScatterParts)(k))
	}
	return nil
}

type tensorScatterParts tensorScatter

// Range writes into the parts lo..hi-1.
func (k *tensorScatterParts) Range(lo, hi int) {
	place := k.at.Inner * k.bytes
	for i := lo; i < hi; i++ {
		d := k.dst[i*k.at.Long*place : (i+1)*k.at.Long*place]
		s := k.src[i*k.at.Update*place : (i+1)*k.at.Update*place]
		n := copy(d[k.at.From[i/k.at.Outer]*place:], s)
		copy(d, s[n:])
	}
}
