package operand

import "memopt/executor"

// Expansion stretches input 0 to the shape that input 1 lists, both broadcast with each other as in
// numpy. https://onnx.ai/onnx/operators/onnx__Expand.html
type Expansion struct {
	want, shape, step []int // shape: of the result
}

// NewExpansion makes Expand.
func NewExpansion(*executor.Prep) (Move, error) { return &Expansion{}, nil }

// fromBack returns a dim counted from the back, 1 being the last. Axes before the first have length
// 1.
func fromBack(shape []int, i int) int {
	if i > len(shape) {
		return 1
	}
	return shape[len(shape)-i]
}

// Run repeats along the axes that are stretched.
func (e *Expansion) Run(c *executor.Ctx, m Copier) error {
	x := c.In(0)
	if err := e.read(c, x.Shape); err != nil {
		return err
	}
	y := c.Out(0, e.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	e.step = RowMajor(e.step, e.shape)
	m.Begin()
	from := x.Len()
	for i, d := range e.shape {
		if a := fromBack(x.Shape, len(e.shape)-i); a == 1 {
			m.Add(d, e.step[i], 0)
		} else {
			from /= a
			m.Add(d, e.step[i], from)
		}
	}
	return m.Copy(c, y.Data, 0, x.Data, 0)
}

// read sets the shape of the result.
func (e *Expansion) read(c *executor.Ctx, x []int) (err error) {
	if e.want, err = Shape(c, 1, e.want[:0]); err != nil {
		return err
	}
	rank := max(len(e.want), len(x))
	e.shape = e.shape[:0]
	for i := range rank {
		a, b := fromBack(x, rank-i), fromBack(e.want, rank-i)
		if a != b && a != 1 && b != 1 {
			return c.Errorf("input 0 has shape %v and input 1 lists %v, which do not broadcast", x, e.want)
		}
		if a == 1 {
			a = b
		}
		e.shape = append(e.shape, a)
	}
	return nil
}

// Tiling repeats input 0 along its axes as often as input 1 lists.
// https://onnx.ai/onnx/operators/onnx__Tile.html
type Tiling struct {
	repeats, shape, step []int // shape: of the result
}

// NewTiling makes Tile as it is since version 6.
func NewTiling(p *executor.Prep) (Move, error) {
	if p.Version < 6 {
		return nil, p.Unsupported("version %d of the operator is not supported", p.Version)
	}
	return &Tiling{}, nil
}

// Run copies with two axes per axis of the input: the repeats, and the elements.
func (t *Tiling) Run(c *executor.Ctx, m Copier) error {
	x := c.In(0)
	if err := t.read(c, x.Shape); err != nil {
		return err
	}
	y := c.Out(0, t.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	t.step = RowMajor(t.step, t.shape)
	m.Begin()
	from := x.Len()
	for i, d := range x.Shape {
		from /= d
		m.Add(t.repeats[i], d*t.step[i], 0)
		m.Add(d, t.step[i], from)
	}
	return m.Copy(c, y.Data, 0, x.Data, 0)
}

// read sets the repeats and the shape of the result.
func (t *Tiling) read(c *executor.Ctx, x []int) (err error) {
	if t.repeats, err = Ints(c, 1, t.repeats[:0]); err != nil {
		return err
	}
	if len(t.repeats) != len(x) {
		return c.Errorf("input 1 has %d repeats and input 0 has shape %v", len(t.repeats), x)
	}
	t.shape = t.shape[:0]
	for i, r := range t.repeats {
		if r < 0 {
			return c.Errorf("input 1 has the repeat %d", r)
		}
		t.shape = append(t.shape, Times(x[i], r))
	}
	return nil
}
