package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// Elementwise kernels. Element i of the output comes from one element of each operand, after
// numpy's broadcasting (https://onnx.ai/onnx/repo-docs/Broadcasting.html).
//
// An operator supplies a loop over contiguous elements, and their types. One driver, elemKernel,
// cuts the output into blocks and gives the loop, for each block, contiguous elements of the
// operands: the operand's own memory if they already are contiguous, else a buffer with the
// stretched or converted elements. So a loop need not handle shapes, scalars or 16-bit
// floating-point types.

// Rows of the output of elemLongRow elements or more are blocks of their own, so that operands that
// are repeated row by row, for example a bias, are read in their own memory.
const elemLongRow = 64

// elemLoop computes dst[i] from a[i], b[i] and c[i], for elements of certain types in the given
// memory; operands that it does not have are nil. dst may be a, b or c.
type elemLoop func(dst, a, b, c []byte)

// elemConvert converts elements from one type to another.
type elemConvert func(dst, src []byte)

// elemPlace says where the elements of an operand are.
type elemPlace uint8

const (
	elemFlat    elemPlace = iota // in the order of the output
	elemOne                      // there is one, for all
	elemStrided                  // by strides
)

// elemInput is an operand.
type elemInput struct {
	slot int         // the node's input; -1 for a constant
	size int         // bytes of an element in memory
	wide int         // bytes of an element as the loop takes it
	load elemConvert // nil if the loop takes elements unconverted

	shape  []int
	data   []byte
	place  elemPlace
	stride []int  // elements from one step to the next in each dim of the loop; 0 if stretched
	fill   []byte // a block of copies of the one element, as the loop takes it
}

// elemOutput is the output.
type elemOutput struct {
	slot  int
	size  int         // bytes of an element in memory
	wide  int         // bytes of an element as the loop makes it
	store elemConvert // nil if elements stay as the loop makes them
	data  []byte
}

// elemKernel drives a loop over the output.
//
// It is an executor.Looper: Begin returns -1 without an effect if a run is not a flat loop, because
// an operand is stretched along some dims only or because operands must be checked before the loop.
// Such a run needs Run, which takes all shapes.
type elemKernel struct {
	in    []elemInput
	out   elemOutput
	loop  elemLoop
	grain int           // elements of a piece
	rule  elemShapeRule // nil if the operands' shapes are broadcast together
	// check, if given, checks the operands before a run; the run is then not a flat loop.
	check func(k *elemKernel) error
	// ready, if given, is called when the operands are known; it may choose the loop.
	ready func(k *elemKernel)

	shape []int // of the output
	dims  []int // of the loop
	n     int
	block int  // elements of a block
	plain bool // no operand needs a buffer
	rows  bool // blocks do not cross the ends of rows
}

// elemShapeRule sets the shape of the output from those of the operands.
type elemShapeRule func(k *elemKernel, c *executor.Ctx) error

// Run computes the output.
func (k *elemKernel) Run(c *executor.Ctx) error { return k.run(c, k) }

// run is Run with another body of the loop.
func (k *elemKernel) run(c *executor.Ctx, body executor.Task) error {
	if err := k.plan(c); err != nil {
		return err
	}
	if k.check != nil && k.n > 0 {
		if err := k.check(k); err != nil {
			return err
		}
	}
	k.open(c)
	c.Parallel(k.n, k.grain, body)
	return nil
}

// Begin prepares a flat loop. It returns -1 if the run is not one.
func (k *elemKernel) Begin(c *executor.Ctx) (n int, err error) {
	if err := k.plan(c); err != nil {
		return 0, err
	}
	if k.strided() || k.check != nil {
		return -1, nil
	}
	k.open(c)
	return k.n, nil
}

// plan reads the operands and finds where their elements are.
func (k *elemKernel) plan(c *executor.Ctx) error {
	for i := range k.in {
		if in := &k.in[i]; in.slot >= 0 {
			x := c.In(in.slot)
			if x == nil {
				return c.Errorf("input %d is left out; it is required", in.slot)
			}
			in.shape, in.data = x.Shape, x.Data
		}
	}
	rule := k.rule
	if rule == nil {
		rule = elemBroadcast
	}
	if err := rule(k, c); err != nil {
		return err
	}
	k.n = product(k.shape)
	k.layout()
	return nil
}

func (k *elemKernel) strided() bool {
	for i := range k.in {
		if k.in[i].place == elemStrided {
			return true
		}
	}
	return false
}

// open asks for the output's memory and fills the blocks of scalars.
func (k *elemKernel) open(c *executor.Ctx) {
	k.out.data = nil
	if y := c.Out(k.out.slot, k.shape...); y != nil {
		k.out.data = y.Data
	} else {
		k.n = 0
	}
	k.prepare(c)
}

// prepare fills the blocks of scalars, once the output's memory is known.
func (k *elemKernel) prepare(c *executor.Ctx) {
	reserveBuffers(c)
	widest := max(k.out.wide, k.out.size)
	k.plain = k.out.store == nil
	for i := range k.in {
		in := &k.in[i]
		widest = max(widest, in.wide, in.size)
		if in.place == elemStrided || in.place == elemFlat && in.load != nil {
			k.plain = false
		}
	}
	k.block = elemBytes / widest
	for i := range k.in {
		if in := &k.in[i]; in.place == elemOne && k.n > 0 {
			in.spread(min(k.n, k.block))
		}
	}
	if k.ready != nil {
		k.ready(k)
	}
}

// spread fills a block with n copies of the operand's one element.
func (in *elemInput) spread(n int) {
	if in.fill == nil {
		in.fill = make([]byte, elemBytes)
	}
	one := in.data[:in.size]
	if in.load != nil {
		in.load(in.fill[:in.wide], one)
		one = in.fill[:in.wide]
	}
	elemRepeat(in.fill[:n*in.wide], one)
}

// Range computes elements lo..hi-1.
func (k *elemKernel) Range(lo, hi int) {
	switch {
	case !k.plain:
		k.buffered(lo, hi)
	case len(k.in) == 1 && k.in[0].place == elemFlat:
		x := &k.in[0]
		k.loop(k.out.data[lo*k.out.size:hi*k.out.size], x.data[lo*x.size:hi*x.size], nil, nil)
	default:
		k.direct(lo, hi)
	}
}

// direct runs the loop on operands that need no buffers.
func (k *elemKernel) direct(lo, hi int) {
	step := hi - lo
	for i := range k.in {
		if k.in[i].place == elemOne {
			step = k.block
		}
	}
	size := k.out.size
	for ; lo < hi; lo += step {
		n := min(step, hi-lo)
		k.loop(k.out.data[lo*size:(lo+n)*size], k.at(0, lo, n), k.at(1, lo, n), k.at(2, lo, n))
	}
}

// at returns n elements of operand i, which needs no buffer, from lo on.
func (k *elemKernel) at(i, lo, n int) []byte {
	if i >= len(k.in) {
		return nil
	}
	in := &k.in[i]
	if in.place == elemOne {
		return in.fill[:n*in.wide]
	}
	return in.data[lo*in.size : (lo+n)*in.size]
}

// buffered runs the loop block by block with buffers.
func (k *elemKernel) buffered(lo, hi int) {
	m := takeBuffers()
	size, wide := k.out.size, k.out.wide
	for lo < hi {
		n := k.step(lo, hi)
		a, b, c := k.fetch(0, lo, n, &m.b[0], &m.b[4]), k.fetch(1, lo, n, &m.b[1], &m.b[4]),
			k.fetch(2, lo, n, &m.b[2], &m.b[4])
		dst := k.out.data[lo*size : (lo+n)*size]
		if k.out.store == nil {
			k.loop(dst, a, b, c)
		} else {
			y := m.b[3].bytes(n * wide)
			k.loop(y, a, b, c)
			k.out.store(dst, y)
		}
		lo += n
	}
	m.giveBack()
}

// step returns the number of elements of the block that starts at lo.
func (k *elemKernel) step(lo, hi int) int {
	n := min(k.block, hi-lo)
	if k.rows {
		row := k.dims[len(k.dims)-1]
		n = min(n, row-lo%row)
	}
	return n
}

// fetch returns n elements of operand i from lo on, as the loop takes them. It may use two buffers.
func (k *elemKernel) fetch(i, lo, n int, buffer, raw *elemBuffer) []byte {
	if i >= len(k.in) {
		return nil
	}
	in := &k.in[i]
	if in.place == elemOne {
		return in.fill[:n*in.wide]
	}
	src := buffer.bytes(n * in.size)
	if in.load != nil {
		src = raw.bytes(n * in.size)
	}
	switch {
	case in.place == elemFlat:
		src = in.data[lo*in.size : (lo+n)*in.size]
	case k.rows && in.stride[len(in.stride)-1] == 1:
		at := k.offset(in, lo)
		src = in.data[at*in.size : (at+n)*in.size]
	case k.rows:
		at := k.offset(in, lo)
		elemRepeat(src, in.data[at*in.size:(at+1)*in.size])
	default:
		k.stretch(in, src, lo)
	}
	if in.load != nil {
		dst := buffer.bytes(n * in.wide)
		in.load(dst, src)
		return dst
	}
	return src
}

// elemIn is the operand at input slot, converted to type as for the loop.
func elemIn(p *executor.Prep, slot int, as graph.DType) elemInput {
	d := p.DType(slot)
	return elemInput{slot: slot, size: d.Bits() / 8, wide: as.Bits() / 8, load: elemConversion(d, as)}
}

// elemOut is output slot, which the loop makes as type as.
func elemOut(p *executor.Prep, slot int, as graph.DType) elemOutput {
	d := as
	if p.Wants(slot) {
		d = p.Out[slot]
	}
	return elemOutput{slot: slot, size: d.Bits() / 8, wide: as.Bits() / 8, store: elemConversion(as, d)}
}

// elemWide returns the type of a loop's computation for elements of a type.
func elemWide(d graph.DType) graph.DType {
	if isHalf(d) {
		return graph.Float32
	}
	return d
}
