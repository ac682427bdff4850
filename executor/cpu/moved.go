package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// movedKernel is an operator that only copies elements to other places.
type movedKernel struct {
	mover
	move operand.Move
}

// Run copies.
func (k *movedKernel) Run(c *executor.Ctx) error { return k.move.Run(c, &k.mover) }

// newMoved makes the kernel of a move of input 0, whose type all outputs share.
func newMoved(makeMove func(*executor.Prep) (operand.Move, error)) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		if err := moveNeeds(p, 0); err != nil {
			return nil, err
		}
		for i, d := range p.Out {
			if d != graph.Undefined && d != p.DType(0) {
				return nil, p.Errorf("output %d has type %v, wanted %v", i, d, p.DType(0))
			}
		}
		size, err := moveBytes(p, p.DType(0))
		if err != nil {
			return nil, err
		}
		move, err := makeMove(p)
		return &movedKernel{mover{size: size}, move}, err
	}
}

// newSplitTraining: a Split whose sizes are always given.
func newSplitTraining(p *executor.Prep) (executor.Kernel, error) {
	k, err := newMoved(operand.NewSplitting)(p)
	if err != nil {
		return nil, err
	}
	return k, moveNeeds(p, 1)
}
