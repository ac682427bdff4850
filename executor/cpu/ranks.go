package cpu

import (
	"memopt/executor"
	"memopt/train/collective"
)

// startKernel begins a collective operation (AllReduceStart, ReduceScatterStart, AllGatherStart) in the
// memory of its output.
type startKernel struct {
	op    collective.Op
	ranks int
	group *executor.Ranks
}

// newStart makes the kernel of an operation's beginning. Sessions that are no rank can open such a graph,
// to know its memory, but not run it.
func newStart(o collective.Op) func(p *executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		k := &startKernel{o, int(p.Node.Int("ranks", 0)), p.Ranks}
		if p.Ranks != nil {
			if err := p.Ranks.Check(int64(k.ranks)); err != nil {
				return nil, p.Errorf("%w", err)
			}
		}
		return k, nil
	}
}

// Run puts the rank's part into the output and begins.
func (k *startKernel) Run(c *executor.Ctx) error {
	if err := k.group.Check(int64(k.ranks)); err != nil {
		return err
	}
	x, rank := c.In(0), k.group.Rank()
	if k.op == collective.AllGather {
		y := c.Out(0, k.ranks*x.Len())
		copy(y.Data[rank*len(x.Data):], x.Data)
		return k.group.Start(k.op, y.DType, y.Data)
	}
	counts := c.In(1)
	if counts.Len() != k.ranks {
		return c.Errorf("input 1 is %v, wanted one element for each of %d ranks", counts, k.ranks)
	}
	y := c.Out(0, x.Shape...)
	if counts.Data[rank] == 0 {
		clear(y.Data) // its contents are of no batch
	} else {
		copyApart(y.Data, x.Data)
	}
	return k.group.Start(k.op, y.DType, y.Data)
}

// copyApart copies a tensor's data unless they lie there already.
func copyApart(dst, src []byte) {
	if len(dst) > 0 && &dst[0] != &src[0] {
		copy(dst, src)
	}
}

// waitKernel is CollectiveWait: it waits for the operation in its input's memory.
type waitKernel struct{ group *executor.Ranks }

func newWait(p *executor.Prep) (executor.Kernel, error) { return &waitKernel{p.Ranks}, nil }

// Run waits.
func (k *waitKernel) Run(c *executor.Ctx) error {
	if k.group == nil {
		return c.Errorf("no operation can have begun in a session that is no rank")
	}
	x := c.In(0)
	if err := k.group.Wait(x.Data); err != nil {
		return err
	}
	copyApart(c.Out(0, x.Shape...).Data, x.Data)
	return nil
}

// pieceKernel is RankPiece: the rank's piece of the elements of all inputs, one after the other.
type pieceKernel struct {
	ranks int
	group *executor.Ranks
}

func newPiece(p *executor.Prep) (executor.Kernel, error) {
	if p.Ranks != nil {
		if err := p.Ranks.Check(p.Node.Int("ranks", 0)); err != nil {
			return nil, p.Errorf("%w", err)
		}
	}
	return &pieceKernel{int(p.Node.Int("ranks", 0)), p.Ranks}, nil
}

// Run copies the piece's share of each input, and ends it with zeros.
func (k *pieceKernel) Run(c *executor.Ctx) error {
	if err := k.group.Check(int64(k.ranks)); err != nil {
		return err
	}
	total := 0
	for i := range c.Inputs() {
		total += c.In(i).Len()
	}
	length := (total + k.ranks - 1) / k.ranks
	y := c.Out(0, length)
	size := y.DType.Bits() / 8
	lo := k.group.Rank() * length * size // of the piece, in bytes of all inputs
	at, done := 0, 0
	for i := range c.Inputs() {
		x := c.In(i).Data
		from, to := max(lo-at, 0), min(lo+len(y.Data)-at, len(x))
		if from < to {
			done += copy(y.Data[at+from-lo:], x[from:to])
		}
		at += len(x)
	}
	clear(y.Data[done:])
	return nil
}

// unpackKernel is Unpack: elements of a vector in the shape of input 1.
type unpackKernel struct{ offset int }

func newUnpack(p *executor.Prep) (executor.Kernel, error) {
	return &unpackKernel{int(p.Node.Int("offset", 0))}, nil
}

// Run copies the elements.
func (k *unpackKernel) Run(c *executor.Ctx) error {
	full, like := c.In(0), c.In(1)
	if k.offset < 0 || k.offset+like.Len() > full.Len() {
		return c.Errorf("input 0 is %v, and has no %d elements from number %d on", full, like.Len(), k.offset)
	}
	y := c.Out(0, like.Shape...)
	copy(y.Data, full.Data[k.offset*y.DType.Bits()/8:])
	return nil
}
