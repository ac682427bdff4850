package cpu

import (
	"memopt/executor"
)

// reverseSequence turns the first elements along the time axis around: in each sequence of the
// batch axis as many as input 1 says. The two axes are the first two, in either order.
// https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
type reverseSequence struct {
	bytes      int
	timeFirst  bool
	dst, src   []byte
	lens       []int
	rows, line int // second axis, and bytes of what it holds
}

func newReverseSequence(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	batch, time := p.Node.Int("batch_axis", 1), p.Node.Int("time_axis", 0)
	if batch+time != 1 || batch*time != 0 {
		return nil, p.Errorf("attributes batch_axis and time_axis are %d and %d, wanted 0 and 1 or 1 and 0", batch, time)
	}
	return &reverseSequence{bytes: size, timeFirst: time == 0}, nil
}

// Run copies line by line.
func (k *reverseSequence) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 has shape %v, wanted rank 2 or more", x.Shape)
	}
	batch, scatterMul := x.Shape[0], x.Shape[1]
	if k.timeFirst {
		batch, scatterMul = scatterMul, batch
	}
	var err error
	if k.lens, err = moveInts(c, 1, k.lens[:0]); err != nil {
		return err
	}
	if len(k.lens) != batch {
		return c.Errorf("input 1 has %d lengths for %d sequences", len(k.lens), batch)
	}
	for _, n := range k.lens {
		if n < 0 || n > scatterMul {
			return c.Errorf("input 1 has the length %d; sequences are %d long", n, scatterMul)
		}
	}
	y := c.Out(0, x.Shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.dst, k.src, k.rows = y.Data, x.Data, x.Shape[1]
	k.line = product(x.Shape[2:]) * k.bytes
	c.Parallel(batch*scatterMul, 1+(64<<10)/k.line, k)
	return nil
}

// Range copies the lines lo..hi-1.
func (k *reverseSequence) Range(lo, hi int) {
	for i := lo; i < hi; i++ {
		from := i
		if k.timeFirst {
			if t, n := i/k.rows, k.lens[i%k.rows]; t < n {
				from = (n-1-t)*k.rows + i%k.rows
			}
		} else if t, n := i%k.rows, k.lens[i/k.rows]; t < n {
			from = i - t + n - 1 - t
		}
		copy(k.dst[i*k.line:(i+1)*k.line], k.src[from*k.line:])
	}
}

// triluKernel keeps the upper or lower triangle of the matrices in the last two axes, up to and with
// diagonal k (input 1), and clears the rest.
// https://onnx.ai/onnx/operators/onnx__Trilu.html
type triluKernel struct {
	bytes            int
	upper            bool
	rows, cols, diag int
	dst, src         []byte
	same             bool
}

func newTrilu(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &triluKernel{bytes: size, upper: p.Node.Int("upper", 1) != 0}, nil
}

// Run goes over the rows of all matrices.
func (k *triluKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 has shape %v, wanted matrices in the last two axes", x.Shape)
	}
	diag, err := moveInt(c, 1, 0)
	if err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.rows, k.cols = x.Shape[x.Rank()-2], x.Shape[x.Rank()-1]
	k.diag = min(max(diag, -k.rows), k.cols) // beyond the matrix nothing changes
	k.dst, k.src, k.same = y.Data, x.Data, moveSame(x.Data, y.Data)
	row := k.cols * k.bytes
	c.Parallel(len(y.Data)/row, 1+(64<<10)/row, k)
	return nil
}

// Range does the rows lo..hi-1.
func (k *triluKernel) Range(lo, hi int) {
	row := k.cols * k.bytes
	for i := lo; i < hi; i++ {
		d, s := k.dst[i*row:(i+1)*row], k.src[i*row:(i+1)*row]
		// Upper: the columns from r+diag on. Lower: those up to r+diag.
		at, to := i%k.rows+k.diag, k.cols
		if !k.upper {
			at, to = 0, at+1
		}
		at, to = min(max(at, 0), k.cols)*k.bytes, min(max(to, 0), k.cols)*k.bytes
		clear(d[:at])
		if !k.same {
			copy(d[at:to], s[at:to])
		}
		clear(d[to:])
	}
}

// tensorScatter writes an update into a cache along an axis: in each part of the batch axis
// (the first) from the place on that input 2 lists, or from 0. In mode circular it goes on
// at the start when it comes to the end.
// https://onnx.ai/onnx/operators/onnx__TensorScatter.html
type tensorScatter struct {
	wholeCopy
	bytes    int
	axis     int64
	circular bool
	from     []int

	dst, src                []byte
	outer, update, long, in int // parts per batch, places of update and cache, bytes per place
}

func newTensorScatter(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0, 1)
	if err != nil {
		return nil, err
	}
	k := &tensorScatter{bytes: size, axis: p.Node.Int("axis", -2)}
	switch mode := p.Node.Str("mode", "linear"); mode {
	case "linear":
	case "circular":
		k.circular = true
	default:
		return nil, p.Errorf("attribute mode is %q, wanted linear or circular", mode)
	}
	return k, nil
}

// Run copies the cache, unless it is in place, and writes the update.
func (k *tensorScatter) Run(c *executor.Ctx) error {
	x, u := c.In(0), c.In(1)
	axis, err := moveAxis(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	if axis == 0 {
		return c.Errorf("axis %d is the batch axis", k.axis)
	}
	if u.Rank() != x.Rank() || !moveJoined(u.Shape[:axis], x.Shape[:axis], nil) || !moveJoined(u.Shape[axis+1:], x.Shape[axis+1:], nil) {
		return c.Errorf("input 1 has shape %v and input 0 has shape %v; they may differ in axis %d alone", u.Shape, x.Shape, axis)
	}
	k.long, k.update = x.Shape[axis], u.Shape[axis]
	if err := k.places(c, x.Shape[0]); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	if err := k.copyUnlessSame(c, y.Data, x.Data); err != nil {
		return err
	}
	k.dst, k.src, k.in = y.Data, u.Data, product(x.Shape[axis+1:])*k.bytes
	k.outer = product(x.Shape[1:axis])
	if part := k.update * k.in; part > 0 {
		c.Parallel(x.Shape[0]*k.outer, 1+(64<<10)/part, (*tensorScatterParts)(k))
	}
	return nil
}

// places reads where the update begins in each part of the batch.
func (k *tensorScatter) places(c *executor.Ctx, batch int) error {
	if k.update > k.long {
		return c.Errorf("input 1 has %d places and input 0 has %d", k.update, k.long)
	}
	k.from = k.from[:0]
	if c.In(2) == nil {
		for range batch {
			k.from = append(k.from, 0)
		}
		return nil
	}
	var err error
	if k.from, err = moveInts(c, 2, k.from); err != nil {
		return err
	}
	if len(k.from) != batch {
		return c.Errorf("input 2 has %d places for a batch of %d", len(k.from), batch)
	}
	for i, at := range k.from {
		if at < 0 || !k.circular && at > k.long-k.update {
			return c.Errorf("input 2 has the place %d for %d of %d places", at, k.update, k.long)
		}
		if k.long > 0 {
			k.from[i] = at % max(k.long, 1)
		}
	}
	return nil
}

type tensorScatterParts tensorScatter

// Range writes into the parts lo..hi-1.
func (k *tensorScatterParts) Range(lo, hi int) {
	for i := lo; i < hi; i++ {
		d := k.dst[i*k.long*k.in : (i+1)*k.long*k.in]
		s := k.src[i*k.update*k.in : (i+1)*k.update*k.in]
		n := copy(d[k.from[i/k.outer]*k.in:], s)
		copy(d, s[n:])
	}
}
