package executor

import (
	"context"
	"math"

	"memopt/graph"
)

// loopKernel runs its body while a condition holds, at most M times.
// https://onnx.ai/onnx/operators/onnx__Loop.html
type loopKernel struct {
	body  *body
	state carried
	count [1]int64
	cond  [1]uint8
}

func newLoop(f *frame, st *step) (Kernel, error) {
	p := st.prep
	b, err := newBody(f, st, "body")
	if err != nil {
		return nil, err
	}
	n := len(p.In) - 2
	k := len(b.g.Outputs) - 1 - n
	if n < 0 || k < 0 || len(b.g.Inputs) != n+2 {
		return nil, p.Errorf("the body has %d inputs and %d outputs for %d carried values; wanted %d inputs and at "+
			"least %d outputs",
			len(b.g.Inputs), len(b.g.Outputs), n, n+2, n+1)
	}
	return &loopKernel{
		body: b, state: carried{arena: f.s.shares.host, state: make([]Tensor, n), rows: make([]rows, k)},
	}, nil
}

// Run runs the iterations and copies the last state and the scan outputs.
func (k *loopKernel) Run(c *Ctx) error {
	limit := int64(math.MaxInt64)
	if m := c.In(0); m != nil {
		if m.DType != graph.Int64 || m.Len() != 1 {
			return c.Errorf("input 0 is %v, wanted one int64", m)
		}
		limit = Of[int64](m)[0]
	}
	cond := true
	if c.In(1) != nil {
		var err error
		if cond, err = truth(c, 1); err != nil {
			return err
		}
	}
	if err := k.body.ready(); err != nil {
		return err
	}
	defer k.state.release()
	defer k.body.f.release()
	for i := range k.state.state {
		if c.In(i+2) == nil {
			return c.Errorf("input %d, a carried value, is left out", i+2)
		}
		if err := k.state.set(i, c.In(i+2)); err != nil {
			return err
		}
	}
	for i := int64(0); i < limit && cond; i++ {
		err := ended(c.Context) // a body without nodes does not check it
		if err != nil {
			return err
		}
		if cond, err = k.iterate(c, i, cond); err != nil {
			return err
		}
	}
	return k.results(c)
}

// ended returns the reason why a context is done, or nil. ctx may be nil, too.
func ended(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	return ctx.Err()
}

// iterate runs the body once and returns its condition.
func (k *loopKernel) iterate(c *Ctx, i int64, cond bool) (bool, error) {
	k.count[0], k.cond[0] = i, 0
	if cond {
		k.cond[0] = 1
	}
	b := k.body
	if err := b.input(0, &Tensor{DType: graph.Int64, Data: Memory(k.count[:])}); err != nil {
		return false, err
	}
	if err := b.input(1, &Tensor{DType: graph.Bool, Data: k.cond[:]}); err != nil {
		return false, err
	}
	for j := range k.state.state {
		if err := b.input(j+2, &k.state.state[j]); err != nil {
			return false, err
		}
	}
	if err := b.run(c.Context, c.Step<<20+uint64(i)); err != nil {
		return false, c.Errorf("iteration %d: %w", i, err)
	}
	again := b.output(0)
	if again.DType != graph.Bool || again.Len() != 1 {
		return false, c.Errorf("the body's condition is %v, wanted one bool", again)
	}
	next := again.Data[0] != 0
	return next, k.state.carry(b, 1)
}

func (k *loopKernel) results(c *Ctx) error {
	n := len(k.state.state)
	for i := range n {
		if err := copyOut(c, i, &k.state.state[i]); err != nil {
			return err
		}
	}
	for i := range k.state.rows {
		if err := k.state.stack(c, i, n+i, k.body.emptyRow(1+n+i), 0, false); err != nil {
			return err
		}
	}
	return nil
}
