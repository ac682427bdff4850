package cpu

import (
	"memopt/executor"
)

// transposeKernel permutes axes; without a permutation it reverses them.
// https://onnx.ai/onnx/operators/onnx__Transpose.html
type transposeKernel struct {
	mover
	bytes       int
	perm        []int
	given       bool
	shape, step []int
}

func newTranspose(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	k := &transposeKernel{bytes: size, given: p.Node.Attr("perm") != nil}
	k.perm = moveList(nil, p.Node.IntList("perm", nil))
	seen := make([]bool, len(k.perm))
	for i, axis := range k.perm {
		if axis < 0 {
			axis += len(k.perm)
			k.perm[i] = axis
		}
		if axis < 0 || axis >= len(k.perm) || seen[axis] {
			return nil, p.Errorf("attribute perm is %v, which is no permutation", p.Node.IntList("perm", nil))
		}
		seen[axis] = true
	}
	return k, nil
}

// Run permutes the axes of input 0.
func (k *transposeKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	rank := x.Rank()
	if !k.given {
		k.perm = k.perm[:0]
		for i := range rank {
			k.perm = append(k.perm, rank-1-i)
		}
	}
	if len(k.perm) != rank {
		return c.Errorf("attribute perm is %v and input 0 has shape %v", k.perm, x.Shape)
	}
	k.shape = k.shape[:0]
	for _, axis := range k.perm {
		k.shape = append(k.shape, x.Shape[axis])
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.step = moveSteps(k.step, x.Shape)
	k.begin(k.bytes)
	to := 1
	for _, d := range k.shape {
		to *= d
	}
	for i, axis := range k.perm {
		to /= max(k.shape[i], 1)
		k.axis(k.shape[i], to, k.step[axis])
	}
	return k.run(c, y.Data, 0, x.Data, 0)
}
