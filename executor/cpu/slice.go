package cpu

import (
	"math"

	"memopt/executor"
)

// slicer holds what a Slice does to each axis of a shape: count elements from first on, step
// apart.
type slicer struct {
	starts, ends, axes, steps []int
	named                     []bool
	first, count, step        []int
}

// read reads the bounds: attributes before version 10; since then inputs, of
// which the starts are at slot, then ends, axes and steps, the last two being optional.
func (s *slicer) read(c *executor.Ctx, slot int, shape []int) error {
	s.axes, s.steps = s.axes[:0], s.steps[:0]
	var err error
	if s.starts, err = moveInts(c, slot, s.starts[:0]); err != nil {
		return err
	}
	if s.ends, err = moveInts(c, slot+1, s.ends[:0]); err != nil {
		return err
	}
	if c.In(slot+2) != nil {
		if s.axes, err = moveInts(c, slot+2, s.axes); err != nil {
			return err
		}
	} else {
		s.firstAxes()
	}
	if c.In(slot+3) != nil {
		if s.steps, err = moveInts(c, slot+3, s.steps); err != nil {
			return err
		}
	} else {
		s.unitSteps()
	}
	return s.resolve(c, shape)
}

// readAttrs reads the bounds of versions 1 to 9.
func (s *slicer) readAttrs(c *executor.Ctx, shape []int) error {
	n := c.Prep().Node
	s.starts = moveList(s.starts[:0], n.IntList("starts", nil))
	s.ends = moveList(s.ends[:0], n.IntList("ends", nil))
	s.axes, s.steps = moveList(s.axes[:0], n.IntList("axes", nil)), s.steps[:0]
	if n.Attr("axes") == nil {
		s.firstAxes()
	}
	s.unitSteps()
	return s.resolve(c, shape)
}

func (s *slicer) firstAxes() {
	for i := range s.starts {
		s.axes = append(s.axes, i)
	}
}

func (s *slicer) unitSteps() {
	for range s.starts {
		s.steps = append(s.steps, 1)
	}
}

// resolve holds the bounds in the shape.
func (s *slicer) resolve(c *executor.Ctx, shape []int) error {
	n := len(s.starts)
	if len(s.ends) != n || len(s.axes) != n || len(s.steps) != n {
		return c.Errorf("has %d starts, %d ends, %d axes and %d steps; they must be equally many",
			n, len(s.ends), len(s.axes), len(s.steps))
	}
	var err error
	if s.named, err = moveAxes(c, s.axes, len(shape), s.named); err != nil {
		return err
	}
	s.first, s.count, s.step = s.first[:0], s.count[:0], s.step[:0]
	for _, d := range shape {
		s.first, s.count, s.step = append(s.first, 0), append(s.count, d), append(s.step, 1)
	}
	for i, axis := range s.axes {
		if s.steps[i] == 0 {
			return c.Errorf("step %d is 0", i)
		}
		if axis < 0 {
			axis += len(shape)
		}
		s.first[axis], s.count[axis], s.step[axis] = sliceAxis(s.starts[i], s.ends[i], s.steps[i], shape[axis])
	}
	return nil
}

// sliceAxis holds the bounds of a slice in an axis of length d. Negative bounds count from
// its end.
func sliceAxis(start, end, step, d int) (first, count, by int) {
	if start < 0 {
		start += d
	}
	if end < 0 {
		end += d
	}
	if d == 0 {
		return 0, 0, 1
	}
	distance := 0
	if step > 0 {
		start, end = min(max(start, 0), d), min(max(end, 0), d)
		distance = end - start
	} else {
		step = max(step, -math.MaxInt)
		start, end = min(max(start, 0), d-1), min(max(end, -1), d-1)
		distance = start - end
	}
	if distance <= 0 {
		return 0, 0, 1
	}
	count = 1 + (distance-1)/max(step, -step)
	if count == 1 {
		step = 1 // so that a large one cannot leave int when it is multiplied
	}
	return start, count, step
}

// sliceKernel takes part of each axis. DynamicSlice is the same.
// https://onnx.ai/onnx/operators/onnx__Slice.html
type sliceKernel struct {
	mover
	slicer
	bytes int
	attrs bool // the bounds are attributes
	long  []int
}

func newSlice(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &sliceKernel{bytes: size, attrs: p.Version < 10}, nil
}

func newDynamicSlice(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &sliceKernel{bytes: size}, nil
}

// Run copies the elements that the bounds leave.
func (k *sliceKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	var err error
	if k.attrs {
		err = k.readAttrs(c, x.Shape)
	} else {
		err = k.read(c, 1, x.Shape)
	}
	if err != nil {
		return err
	}
	y := c.Out(0, k.count...)
	if y == nil {
		return nil
	}
	k.long = moveSteps(k.long, x.Shape)
	k.begin(k.bytes)
	to, at := y.Len(), 0
	for i, n := range k.count {
		to /= max(n, 1)
		k.axis(n, to, k.step[i]*k.long[i])
		at += k.first[i] * k.long[i]
	}
	return k.run(c, y.Data, 0, x.Data, at)
}

// sliceGradKernel is the gradient of Slice: zeros of the shape that input 1 lists, with the
// incoming gradient (input 0) where the slice took its elements.
type sliceGradKernel struct {
	mover
	slicer
	moveFiller
	bytes       int
	shape, long []int
}

func newSliceGrad(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &sliceGradKernel{bytes: size}, nil
}

// Run scatters the gradient.
func (k *sliceGradKernel) Run(c *executor.Ctx) error {
	dy := c.In(0)
	var err error
	if k.shape, err = moveShape(c, 1, k.shape[:0]); err != nil {
		return err
	}
	if err := k.slicer.read(c, 2, k.shape); err != nil {
		return err
	}
	if len(dy.Shape) != len(k.count) {
		return c.Errorf("input 0 has shape %v, wanted %v", dy.Shape, k.count)
	}
	for i, n := range k.count {
		if dy.Shape[i] != n {
			return c.Errorf("input 0 has shape %v, wanted %v", dy.Shape, k.count)
		}
	}
	dx := c.Out(0, k.shape...)
	if dx == nil {
		return nil
	}
	k.zero(c, dx.Data)
	k.long = moveSteps(k.long, k.shape)
	k.begin(k.bytes)
	from, at := dy.Len(), 0
	for i, n := range k.count {
		from /= max(n, 1)
		k.axis(n, k.step[i]*k.long[i], from)
		at += k.first[i] * k.long[i]
	}
	return k.mover.run(c, dx.Data, at, dy.Data, 0)
}
