package cpu

import (
	"memopt/executor"
)

// padFill says what goes outside the input.
type padFill uint8

const (
	padConstant padFill = iota
	padReflect          // the input mirrored at its border elements
	padEdge             // the border element
	padWrap             // the input again
)

// padKernel adds elements before and after each axis, or takes some away where the
// number is negative. The numbers are the attribute pads before version 11 and input 1
// since; since version 18 they may be for the axes that input 3 lists only.
// https://onnx.ai/onnx/operators/onnx__Pad.html
type padKernel struct {
	size  int
	mode  padFill
	attrs bool    // pads and value are attributes
	value [8]byte // the attribute

	pads, axes, before, after []int
	named                     []bool
	shape, steps              []int

	// The loop: rows are the last axis that is padded, of chunks of chunk bytes.
	axis, chunk  int
	fill         [64]byte
	dims         []int // of the input
	dst, src     []byte
	inside, last int // the part of a row that is one copy: places inside..last-1
}

var padFills = map[string]padFill{"constant": padConstant, "reflect": padReflect, "edge": padEdge, "wrap": padWrap}

func newPad(p *executor.Prep) (executor.Kernel, error) {
	if p.Version < 2 {
		return nil, p.Unsupported("version %d of the operator is not supported", p.Version)
	}
	k := &padKernel{attrs: p.Version < 11}
	slots := []int{0}
	if !k.attrs && p.Has(2) {
		slots = []int{0, 2}
	}
	var err error
	if k.size, err = moveSize(p, slots...); err != nil {
		return nil, err
	}
	name := p.Node.Str("mode", "constant")
	mode, ok := padFills[name]
	if !ok || mode == padWrap && p.Version < 19 {
		return nil, p.Errorf("attribute mode is %q, wanted constant, reflect or edge, or wrap from version 19 on", name)
	}
	k.mode = mode
	if v := p.Node.Float("value", 0); k.attrs && v != 0 {
		if k.value, ok = moveElementOf(p.DType(0), float64(v)); !ok {
			return nil, unsupportedTypes(p)
		}
	}
	return k, nil
}

// Run copies row by row.
func (k *padKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	value, err := k.read(c, x)
	if err != nil {
		return err
	}
	if err := k.sizes(c, x); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.start(x, value)
	k.dst, k.src = y.Data, x.Data
	row := k.shape[k.axis] * k.chunk
	c.Parallel(len(y.Data)/row, 1+(64<<10)/row, k)
	return nil
}

// read reads the pads, as before and after per axis of x, and the value outside.
func (k *padKernel) read(c *executor.Ctx, x *executor.Tensor) (value [8]byte, err error) {
	k.axes, k.pads = k.axes[:0], k.pads[:0]
	for i := range x.Rank() {
		k.axes = append(k.axes, i)
	}
	value = k.value
	if k.attrs {
		k.pads = moveList(k.pads, c.Prep().Node.IntList("pads", nil))
	} else {
		if k.pads, err = moveInts(c, 1, k.pads); err != nil {
			return value, err
		}
		if v := c.In(2); v != nil && v.Len() == 1 {
			value = moveElement(v.Data, 0, k.size)
		} else if v != nil && v.Len() != 0 {
			return value, c.Errorf("input 2 is %v, wanted one element", v)
		}
		if c.In(3) != nil {
			if k.axes, err = moveInts(c, 3, k.axes[:0]); err != nil {
				return value, err
			}
		}
	}
	if k.named, err = moveAxes(c, k.axes, x.Rank(), k.named); err != nil {
		return value, err
	}
	if len(k.pads) != 2*len(k.axes) {
		return value, c.Errorf("has %d pads for %d axes, wanted two per axis", len(k.pads), len(k.axes))
	}
	k.before, k.after = k.before[:0], k.after[:0]
	for range x.Rank() {
		k.before, k.after = append(k.before, 0), append(k.after, 0)
	}
	for i, axis := range k.axes {
		if axis < 0 {
			axis += x.Rank()
		}
		k.before[axis], k.after[axis] = k.pads[i], k.pads[i+len(k.axes)]
	}
	return value, nil
}

// sizes sets the shape of the result.
func (k *padKernel) sizes(c *executor.Ctx, x *executor.Tensor) error {
	const most = 1 << 48 // more than any memory, and sums stay in int
	k.shape = k.shape[:0]
	for i, d := range x.Shape {
		a, b := k.before[i], k.after[i]
		if a < -most || b < -most || a > most || b > most {
			return c.Errorf("axis %d has the pads %d and %d", i, a, b)
		}
		kept := d + min(a, 0) + min(b, 0)
		if kept < 0 || kept == 0 && k.mode != padConstant && (a > 0 || b > 0) {
			return c.Errorf("axis %d of input 0, which has shape %v, has the pads %d and %d", i, x.Shape, a, b)
		}
		k.shape = append(k.shape, d+a+b)
	}
	return nil
}

// place returns the place in the input for place j of axis i of the result, or -1.
func (k *padKernel) place(i, j int) int {
	before, after := k.before[i], k.after[i]
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
	switch k.mode {
	case padEdge:
		return min(max(j, 0), n-1)
	case padWrap:
		return ((j % n) + n) % n
	case padReflect:
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
	for k.axis > 0 && k.before[k.axis] == 0 && k.after[k.axis] == 0 {
		k.axis--
	}
	k.dims = append(k.dims[:0], x.Shape...)
	if rank == 0 { // a scalar is a row of one
		k.axis, k.dims, k.shape = 0, append(k.dims, 1), append(k.shape, 1)
		k.before, k.after = append(k.before, 0), append(k.after, 0)
	}
	k.chunk = product(k.shape[k.axis+1:]) * k.size
	k.steps = append(k.steps[:0], k.shape[:k.axis+1]...)
	n := k.chunk
	for i := k.axis; i >= 0; i-- {
		k.steps[i] = n
		n *= k.dims[i]
	}
	k.inside = max(k.before[k.axis], 0)
	k.last = k.shape[k.axis] - max(k.after[k.axis], 0)
	for i := range len(k.fill) {
		k.fill[i] = value[i%k.size]
	}
}

// Range makes the rows lo..hi-1.
func (k *padKernel) Range(lo, hi int) {
	row := k.shape[k.axis] * k.chunk
	for ; lo < hi; lo++ {
		d := k.dst[lo*row : (lo+1)*row]
		at, ok := 0, true
		for i, n := k.axis-1, lo; i >= 0; i-- {
			from := k.place(i, n%k.shape[i])
			n /= k.shape[i]
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
	if k.mode == padConstant {
		k.constant(d[:k.inside*chunk])
		k.constant(d[k.last*chunk:])
	} else {
		for j := range k.inside {
			copy(d[j*chunk:(j+1)*chunk], s[k.place(k.axis, j)*chunk:])
		}
		for j := k.last; j < k.shape[k.axis]; j++ {
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
