package cuda

import (
	"math"

	"memopt/executor"
)

// slicing is what a Slice does to each axis of a shape: count elements from first on, step apart.
type slicing struct {
	starts, ends, axes, steps []int
	first, count, step        []int
}

// read reads the bounds: inputs from slot on, which are starts, ends, axes and steps, the last two being optional.
func (s *slicing) read(c *executor.Ctx, slot int, shape []int) (err error) {
	s.axes, s.steps = s.axes[:0], s.steps[:0]
	if s.starts, err = hostInts(c, slot, s.starts[:0]); err != nil {
		return err
	}
	if s.ends, err = hostInts(c, slot+1, s.ends[:0]); err != nil {
		return err
	}
	if c.In(slot+2) == nil {
		s.firstAxes()
	} else if s.axes, err = hostInts(c, slot+2, s.axes); err != nil {
		return err
	}
	if c.In(slot+3) == nil {
		s.unitSteps()
	} else if s.steps, err = hostInts(c, slot+3, s.steps); err != nil {
		return err
	}
	return s.resolve(c, shape)
}

// readAttrs reads the bounds of versions 1 to 9.
func (s *slicing) readAttrs(c *executor.Ctx, shape []int) error {
	n := c.Prep().Node
	s.starts = attrInts(s.starts[:0], n.IntList("starts", nil))
	s.ends = attrInts(s.ends[:0], n.IntList("ends", nil))
	s.axes, s.steps = attrInts(s.axes[:0], n.IntList("axes", nil)), s.steps[:0]
	if n.Attr("axes") == nil {
		s.firstAxes()
	}
	s.unitSteps()
	return s.resolve(c, shape)
}

func (s *slicing) firstAxes() {
	for i := range s.starts {
		s.axes = append(s.axes, i)
	}
}

func (s *slicing) unitSteps() {
	for range s.starts {
		s.steps = append(s.steps, 1)
	}
}

// resolve holds the bounds in the shape.
func (s *slicing) resolve(c *executor.Ctx, shape []int) error {
	n := len(s.starts)
	if len(s.ends) != n || len(s.axes) != n || len(s.steps) != n {
		return c.Errorf("has %d starts, %d ends, %d axes and %d steps; they must be equally many",
			n, len(s.ends), len(s.axes), len(s.steps))
	}
	if err := frontAxes(c, s.axes, len(shape)); err != nil {
		return err
	}
	s.first, s.count, s.step = s.first[:0], append(s.count[:0], shape...), s.step[:0]
	for range shape {
		s.first, s.step = append(s.first, 0), append(s.step, 1)
	}
	for i, axis := range s.axes {
		if s.steps[i] == 0 {
			return c.Errorf("step %d is 0", i)
		}
		s.first[axis], s.count[axis], s.step[axis] = sliceBounds(s.starts[i], s.ends[i], s.steps[i], shape[axis])
	}
	return nil
}

// sliceBounds holds the bounds of a slice in an axis of length d. Negative bounds count from its end.
func sliceBounds(start, end, step, d int) (first, count, by int) {
	if d == 0 {
		return 0, 0, 1
	}
	if start < 0 {
		start += d
	}
	if end < 0 {
		end += d
	}
	distance := 0
	if step > 0 {
		start, end = min(max(start, 0), d), min(max(end, 0), d)
		distance = end - start
	} else {
		step = max(step, -math.MaxInt) // which can be negated
		start, end = min(max(start, 0), d-1), min(max(end, -1), d-1)
		distance = start - end
	}
	if distance <= 0 {
		return 0, 0, 1
	}
	count = 1 + (distance-1)/max(step, -step)
	if count == 1 {
		step = 1 // a large one might leave int when it is multiplied
	}
	return start, count, step
}

// slicer takes part of each axis; grad puts the parts back into zeros.
type slicer struct {
	boxCopy
	slicing
	attrs       bool // the bounds are attributes
	shape, long []int
}

// newSlice makes the kernel of Slice and DynamicSlice.
func newSlice(attrsBelow int) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
		return &slicer{boxCopy: b, attrs: p.Version < attrsBelow}, err
	}
}

// Run copies the elements that the bounds leave.
func (k *slicer) Run(c *executor.Ctx) error {
	x := c.In(0)
	var err error
	if k.attrs {
		err = k.readAttrs(c, x.Shape)
	} else {
		err = k.slicing.read(c, 1, x.Shape)
	}
	if err != nil {
		return err
	}
	y := c.Out(0, k.count...)
	if y == nil {
		return nil
	}
	k.long = rowMajor(k.long, x.Shape)
	k.begin()
	to, at := y.Len(), 0
	for i, n := range k.count {
		to /= max(n, 1)
		k.add(n, to, k.step[i]*k.long[i])
		at += k.first[i] * k.long[i]
	}
	return k.copyBox(c, y.Data, 0, x.Data, at)
}

// sliceGrad puts the incoming gradient (input 0) where the slice took its elements, into zeros of the shape that input 1 lists.
type sliceGrad struct{ slicer }

// newSliceGrad makes the kernel of SliceGrad.
func newSliceGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	return &sliceGrad{slicer{boxCopy: b}}, err
}

// Run clears and copies.
func (k *sliceGrad) Run(c *executor.Ctx) error {
	dy := c.In(0)
	var err error
	if k.shape, err = hostShape(c, 1, k.shape[:0]); err != nil {
		return err
	}
	if err := k.slicing.read(c, 2, k.shape); err != nil {
		return err
	}
	if !joined(dy.Shape, k.count, nil) {
		return c.Errorf("input 0 has shape %v, wanted %v", dy.Shape, k.count)
	}
	dx := c.Out(0, k.shape...)
	if dx == nil || len(dx.Data) == 0 {
		return nil
	}
	if dy.Len() < dx.Len() {
		if err := k.d.Memory().Fill(dx.Data, 0); err != nil {
			return err
		}
	}
	k.long = rowMajor(k.long, k.shape)
	k.begin()
	from, at := dy.Len(), 0
	for i, n := range k.count {
		from /= max(n, 1)
		k.add(n, k.step[i]*k.long[i], from)
		at += k.first[i] * k.long[i]
	}
	return k.copyBox(c, dx.Data, at, dy.Data, 0)
}
