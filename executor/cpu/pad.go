package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// padKernel adds elements before and after each axis, or takes some away if the number is negative.
// https://onnx.ai/onnx/operators/onnx__Pad.html
type padKernel struct {
	operand.Padding
	size  int
	value [8]byte // the attribute
	steps []int

	// The loop: rows are the last axis that is padded, of chunks of chunk bytes.
	axis, chunk  int
	fill         [64]byte
	dims         []int // of the input
	dst, src     []byte
	inside, last int // the part of a row that is a single copy: places inside..last-1
}

func newPad(p *executor.Prep) (executor.Kernel, error) {
	if p.Version < 2 {
		return nil, p.Unsupported("version %d of the operator is not supported", p.Version)
	}
	k, slots := &padKernel{}, []int{0}
	if p.Version >= 11 && p.Has(2) {
		slots = []int{0, 2} // the value too
	}
	var err error
	if k.size, err = moveSize(p, slots...); err != nil {
		return nil, err
	}
	if k.Padding, err = operand.NewPadding(p); err != nil {
		return nil, err
	}
	if v := p.Node.Float("value", 0); k.Attrs && v != 0 {
		var ok bool
		if k.value, ok = moveElementOf(p.DType(0), float64(v)); !ok {
			return nil, unsupportedTypes(p)
		}
	}
	return k, nil
}

// Run copies row by row.
func (k *padKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	given, err := k.Read(c)
	if err != nil {
		return err
	}
	value := k.value
	copy(value[:], given)
	y := c.Out(0, k.Shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.start(x, value)
	k.dst, k.src = y.Data, x.Data
	row := k.Shape[k.axis] * k.chunk
	c.Parallel(len(y.Data)/row, 1+(64<<10)/row, k)
	return nil
}

// place returns the place in the input for place j of axis i of the result, or -1.
func (k *padKernel) place(i, j int) int {
	before, after := k.Before[i], k.After[i]
	first := max(-before, 0)
	n := k.dims[i] - first - max(-after, 0) // places that are kept
	j -= max(before, 0)
	if j < 0 || j >= n {
		if j = k.outside(j, n); j < 0 {
			return j
		}
	}
	return j + first
}

// outside maps a place outside 0..n-1 to one inside, or to -1.
func (k *padKernel) outside(j, n int) int {
	switch k.Mode {
	case operand.PadEdge:
		return min(max(j, 0), n-1)
	case operand.PadWrap:
		return ((j % n) + n) % n
	case operand.PadReflect:
		if n == 1 {
			return 0
		}
		period := 2 * (n - 1)
		j = ((j % period) + period) % period
		return min(j, period-j)
	}
	return -1
}

// start finds the rows: axes after the last one that is padded stay as they are.
func (k *padKernel) start(x *executor.Tensor, value [8]byte) {
	rank := x.Rank()
	k.axis = rank - 1
	for k.axis > 0 && k.Before[k.axis] == 0 && k.After[k.axis] == 0 {
		k.axis--
	}
	k.dims = append(k.dims[:0], x.Shape...)
	if rank == 0 { // a scalar is a row of one
		k.axis, k.dims, k.Shape = 0, append(k.dims, 1), append(k.Shape, 1)
		k.Before, k.After = append(k.Before, 0), append(k.After, 0)
	}
	k.chunk = product(k.Shape[k.axis+1:]) * k.size
	k.steps = append(k.steps[:0], k.Shape[:k.axis+1]...)
	n := k.chunk
	for i := k.axis; i >= 0; i-- {
		k.steps[i] = n
		n *= k.dims[i]
	}
	k.inside = max(k.Before[k.axis], 0)
	k.last = k.Shape[k.axis] - max(k.After[k.axis], 0)
	for i := range len(k.fill) {
		k.fill[i] = value[i%k.size]
	}
}

// Range makes the rows lo..hi-1.
func (k *padKernel) Range(lo, hi int) {
	row := k.Shape[k.axis] * k.chunk
	for ; lo < hi; lo++ {
		d := k.dst[lo*row : (lo+1)*row]
		at, ok := 0, true
		for i, n := k.axis-1, lo; i >= 0; i-- {
			from := k.place(i, n%k.Shape[i])
			n /= k.Shape[i]
			ok = ok && from >= 0
			at += from * k.steps[i]
		}
		if ok {
			k.row(d, k.src[at:])
		} else {
			k.constant(d)
		}
	}
}

// row makes a row from one of the input.
func (k *padKernel) row(d, s []byte) {
	chunk := k.chunk
	if k.Mode == operand.PadConstant {
		k.constant(d[:k.inside*chunk])
		k.constant(d[k.last*chunk:])
	} else {
		for j := range k.inside {
			copy(d[j*chunk:(j+1)*chunk], s[k.place(k.axis, j)*chunk:])
		}
		for j := k.last; j < k.Shape[k.axis]; j++ {
			copy(d[j*chunk:(j+1)*chunk], s[k.place(k.axis, j)*chunk:])
		}
	}
	if k.inside < k.last {
		copy(d[k.inside*chunk:k.last*chunk], s[k.place(k.axis, k.inside)*chunk:])
	}
}

func (k *padKernel) constant(d []byte) {
	for len(d) > 0 {
		d = d[copy(d, k.fill[:]):]
	}
}
