package operand

import "memopt/executor"

// Sequences are those of ReverseSequence: input 0 has a batch axis and a time axis, the first two
// in either order, and input 1 says how many elements are turned around in each sequence of the
// batch. https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
type Sequences struct {
	TimeFirst    bool
	Batch, Times int   // lengths of the two axes
	Lens         []int // per sequence
}

// NewSequences reads the attributes.
func NewSequences(p *executor.Prep) (Sequences, error) {
	batch, time := p.Node.Int("batch_axis", 1), p.Node.Int("time_axis", 0)
	if batch+time != 1 || batch*time != 0 {
		return Sequences{}, p.Errorf("attributes batch_axis and time_axis are %d and %d, wanted 0 and 1 or 1 and 0",
			batch, time)
	}
	return Sequences{TimeFirst: time == 0}, nil
}

// Begin sets the lengths and makes output 0. It returns nil if the output is empty or not wanted.
func (s *Sequences) Begin(c *executor.Ctx) (y *executor.Tensor, err error) {
	x := c.In(0)
	if err := s.read(c, x); err != nil {
		return nil, err
	}
	return outWithElements(c, x.Shape), nil
}

func (s *Sequences) read(c *executor.Ctx, x *executor.Tensor) (err error) {
	if x.Rank() < 2 {
		return c.Errorf("input 0 has shape %v, wanted rank 2 or more", x.Shape)
	}
	s.Batch, s.Times = x.Shape[0], x.Shape[1]
	if s.TimeFirst {
		s.Batch, s.Times = s.Times, s.Batch
	}
	if s.Lens, err = Ints(c, 1, s.Lens[:0]); err != nil {
		return err
	}
	if len(s.Lens) != s.Batch {
		return c.Errorf("input 1 has %d lengths for %d sequences", len(s.Lens), s.Batch)
	}
	for _, n := range s.Lens {
		if n < 0 || n > s.Times {
			return c.Errorf("input 1 has the length %d; sequences are %d long", n, s.Times)
		}
	}
	return nil
}

// CacheUpdate is where TensorScatter writes its update, input 1, into a cache, input 0: along an
// axis, in each part of the batch axis, the first, from the place that input 2 lists, or from 0. In
// mode circular it wraps around at the end.
// https://onnx.ai/onnx/operators/onnx__TensorScatter.html
type CacheUpdate struct {
	From         []int // per part of the batch: the place where the update begins
	Long, Update int   // places of the cache, and of the update
	Outer, Inner int   // parts per part of the batch, and elements per place

	axis     int64
	circular bool
}

// NewCacheUpdate reads the attributes.
func NewCacheUpdate(p *executor.Prep) (CacheUpdate, error) {
	k := CacheUpdate{axis: p.Node.Int("axis", -2)}
	switch mode := p.Node.Str("mode", "linear"); mode {
	case "linear":
	case "circular":
		k.circular = true
	default:
		return k, p.Errorf("attribute mode is %q, wanted linear or circular", mode)
	}
	return k, nil
}

// Begin sets the places and makes output 0, of the cache's shape. It returns nil if the output is
// empty or not wanted.
func (k *CacheUpdate) Begin(c *executor.Ctx) (y *executor.Tensor, err error) {
	if err := k.read(c, c.In(0), c.In(1)); err != nil {
		return nil, err
	}
	return outWithElements(c, c.In(0).Shape), nil
}

func (k *CacheUpdate) read(c *executor.Ctx, x, u *executor.Tensor) error {
	axis, err := Axis(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	if axis == 0 {
		return c.Errorf("axis %d is the batch axis", k.axis)
	}
	if !equalBut(u.Shape, x.Shape, axis) {
		return c.Errorf("input 1 has shape %v and input 0 has shape %v; they may differ in axis %d alone",
			u.Shape, x.Shape, axis)
	}
	k.Long, k.Update = x.Shape[axis], u.Shape[axis]
	k.Outer, k.Inner = Product(x.Shape[1:axis]), Product(x.Shape[axis+1:])
	return k.places(c, x.Shape[0])
}

// places reads where the update begins in each part of the batch.
func (k *CacheUpdate) places(c *executor.Ctx, batch int) (err error) {
	if k.Update > k.Long {
		return c.Errorf("input 1 has %d places and input 0 has %d", k.Update, k.Long)
	}
	k.From = k.From[:0]
	if c.In(2) == nil {
		for range batch {
			k.From = append(k.From, 0)
		}
		return nil
	}
	if k.From, err = Ints(c, 2, k.From); err != nil {
		return err
	}
	if len(k.From) != batch {
		return c.Errorf("input 2 has %d places for a batch of %d", len(k.From), batch)
	}
	for i, at := range k.From {
		if at < 0 || !k.circular && at > k.Long-k.Update {
			return c.Errorf("input 2 has the place %d for %d of %d places", at, k.Update, k.Long)
		}
		if k.Long > 0 {
			k.From[i] = at % k.Long
		}
	}
	return nil
}
