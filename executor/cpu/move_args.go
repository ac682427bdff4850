package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// Checks that kernels for data movement make beforehand.

// moveSize returns the bytes per element of the named inputs, which must be given and have the type
// of output 0.
func moveSize(p *executor.Prep, slots ...int) (int, error) {
	if err := moveNeeds(p, slots...); err != nil {
		return 0, err
	}
	d := p.DType(slots[0])
	for _, i := range slots[1:] {
		if p.DType(i) != d {
			return 0, p.Errorf("input %d has type %v and input %d has type %v; they must be equal",
				slots[0], d, i, p.DType(i))
		}
	}
	if p.Wants(0) && p.Out[0] != d {
		return 0, p.Errorf("output 0 has type %v, wanted %v", p.Out[0], d)
	}
	return moveBytes(p, d)
}

// moveNeeds returns an error if an input is left out.
func moveNeeds(p *executor.Prep, slots ...int) error {
	for _, i := range slots {
		if !p.Has(i) {
			return p.Errorf("input %d is left out", i)
		}
	}
	return nil
}

// moveBytes returns the bytes of an element that can be moved.
func moveBytes(p *executor.Prep, d graph.DType) (int, error) {
	n := operand.ElementBytes(d)
	if n == 0 {
		return 0, p.Unsupported("no kernel for elements of type %v", d)
	}
	return n, nil
}
