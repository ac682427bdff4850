package operand

import "memopt/executor"

// Permutation permutes the axes of a tensor: axis i of the result is axis perm[i] of the input.
// Without the attribute perm it reverses them. https://onnx.ai/onnx/operators/onnx__Transpose.html
type Permutation struct {
	perm, shape, step []int // shape: of the result
	given             bool
}

// NewPermutation makes Transpose.
func NewPermutation(p *executor.Prep) (Move, error) {
	k := &Permutation{given: p.Node.Attr("perm") != nil}
	k.perm = List(nil, p.Node.IntList("perm", nil))
	seen := make([]bool, len(k.perm))
	for i, axis := range k.perm {
		if axis < 0 {
			axis += len(k.perm)
			k.perm[i] = axis
		}
		if axis < 0 || axis >= len(k.perm) || seen[axis] {
			return nil, p.Errorf("attribute perm is %v, which is not a permutation", p.Node.IntList("perm", nil))
		}
		seen[axis] = true
	}
	return k, nil
}

// Run permutes the axes of input 0.
func (k *Permutation) Run(c *executor.Ctx, m Copier) error {
	x := c.In(0)
	if err := k.read(c, x.Shape); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.step = RowMajor(k.step, x.Shape)
	m.Begin()
	to := y.Len()
	for i, axis := range k.perm {
		to /= max(k.shape[i], 1)
		m.Add(k.shape[i], to, k.step[axis])
	}
	return m.Copy(c, y.Data, 0, x.Data, 0)
}

// read sets the shape of the result.
func (k *Permutation) read(c *executor.Ctx, x []int) error {
	rank := len(x)
	if !k.given {
		k.perm = k.perm[:0]
		for i := range rank {
			k.perm = append(k.perm, rank-1-i)
		}
	}
	if len(k.perm) != rank {
		return c.Errorf("attribute perm is %v and input 0 has shape %v", k.perm, x)
	}
	k.shape = k.shape[:0]
	for _, axis := range k.perm {
		k.shape = append(k.shape, x[axis])
	}
	return nil
}
