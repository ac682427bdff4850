package operand

import (
	"math"

	"memopt/executor"
	"memopt/graph/op"
)

// Slicing takes part of each axis of input 0: count elements, the first at index first and each
// step after the one before. For example, [0 1 2 3 4] from 4 by -2 gives [4 2 0].
// https://onnx.ai/onnx/operators/onnx__Slice.html
type Slicing struct {
	attrs              bool // the bounds are attributes
	first, count, step []int

	starts, ends, axes, steps []int
	named                     []bool
	long                      []int // steps in the shape
}

// NewSlicing makes Slice and DynamicSlice. SliceGrad begins with the zero Slicing.
func NewSlicing(p *executor.Prep) (Move, error) {
	return &Slicing{attrs: p.Node.Kind == op.Slice && p.Version < 10}, nil
}

// Run copies the elements that the bounds leave.
func (s *Slicing) Run(c *executor.Ctx, m Copier) (err error) {
	x := c.In(0)
	if s.attrs {
		err = s.readAttrs(c, x.Shape)
	} else {
		err = s.read(c, 1, x.Shape)
	}
	if err != nil {
		return err
	}
	y := c.Out(0, s.count...)
	if y == nil {
		return nil
	}
	s.long = RowMajor(s.long, x.Shape)
	m.Begin()
	to, at := y.Len(), 0
	for i, n := range s.count {
		to /= max(n, 1)
		m.Add(n, to, s.step[i]*s.long[i])
		at += s.first[i] * s.long[i]
	}
	return m.Copy(c, y.Data, 0, x.Data, at)
}

// read reads the bounds from inputs, as versions from 10 on have them: starts at slot, then ends,
// axes and steps, the last two optional.
func (s *Slicing) read(c *executor.Ctx, slot int, shape []int) (err error) {
	s.axes, s.steps = s.axes[:0], s.steps[:0]
	if s.starts, err = Ints(c, slot, s.starts[:0]); err != nil {
		return err
	}
	if s.ends, err = Ints(c, slot+1, s.ends[:0]); err != nil {
		return err
	}
	if c.In(slot+2) == nil {
		s.firstAxes()
	} else if s.axes, err = Ints(c, slot+2, s.axes); err != nil {
		return err
	}
	if c.In(slot+3) == nil {
		s.unitSteps()
	} else if s.steps, err = Ints(c, slot+3, s.steps); err != nil {
		return err
	}
	return s.resolve(c, shape)
}

// readAttrs reads the bounds of versions 1 to 9, which are attributes.
func (s *Slicing) readAttrs(c *executor.Ctx, shape []int) error {
	n := c.Prep().Node
	s.starts = List(s.starts[:0], n.IntList("starts", nil))
	s.ends = List(s.ends[:0], n.IntList("ends", nil))
	s.axes, s.steps = List(s.axes[:0], n.IntList("axes", nil)), s.steps[:0]
	if n.Attr("axes") == nil {
		s.firstAxes()
	}
	s.unitSteps()
	return s.resolve(c, shape)
}

func (s *Slicing) firstAxes() {
	for i := range s.starts {
		s.axes = append(s.axes, i)
	}
}

func (s *Slicing) unitSteps() {
	for range s.starts {
		s.steps = append(s.steps, 1)
	}
}

// resolve limits the bounds to the shape.
func (s *Slicing) resolve(c *executor.Ctx, shape []int) (err error) {
	n := len(s.starts)
	if len(s.ends) != n || len(s.axes) != n || len(s.steps) != n {
		return c.Errorf("has %d starts, %d ends, %d axes and %d steps; they must be equally many",
			n, len(s.ends), len(s.axes), len(s.steps))
	}
	if s.named, err = Named(c, s.axes, len(shape), s.named); err != nil {
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
		if axis < 0 {
			axis += len(shape)
		}
		s.first[axis], s.count[axis], s.step[axis] = sliceBounds(s.starts[i], s.ends[i], s.steps[i], shape[axis])
	}
	return nil
}

// sliceBounds limits the bounds of a slice to an axis of length d. Negative bounds count from its
// end.
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
		step = 1 // a large one might overflow int when it is multiplied
	}
	return start, count, step
}

// ReadGrad reads the operands of a SliceGrad: the shape of the whole from input 1, and bounds from
// input 2 on. It is an error if input 0, the gradient of the part, does not have the part's shape.
// The shape is returned in the buffer given.
func (s *Slicing) ReadGrad(c *executor.Ctx, shape []int) ([]int, error) {
	shape, err := Shape(c, 1, shape[:0])
	if err != nil {
		return shape, err
	}
	if err := s.read(c, 2, shape); err != nil {
		return shape, err
	}
	if dy := c.In(0); !Joined(dy.Shape, s.count, nil) {
		return shape, c.Errorf("input 0 has shape %v, wanted %v", dy.Shape, s.count)
	}
	return shape, nil
}

// Put copies the gradient of the part, input 0, to its place in the whole, dx, of the shape that
// ReadGrad returned.
func (s *Slicing) Put(c *executor.Ctx, m Copier, dx *executor.Tensor) error {
	dy := c.In(0)
	s.long = RowMajor(s.long, dx.Shape)
	m.Begin()
	from, at := dy.Len(), 0
	for i, n := range s.count {
		from /= max(n, 1)
		m.Add(n, s.step[i]*s.long[i], from)
		at += s.first[i] * s.long[i]
	}
	return m.Copy(c, dx.Data, at, dy.Data, 0)
}
