package cuda

import (
	"memopt/executor"
	"memopt/graph"
)

// stretchedSum adds up a float32 tensor over the axes that broadcasting stretches in a shape, and
// rounds the sums to a type.
type stretchedSum struct {
	sum    *reduceKernel
	round  *launch // of the sums; nil for float32
	terms  executor.Tensor
	sums   executor.Tensor
	folded []bool
	shape  []int // of the result, of the terms' rank
}

func newStretchedSum(d *Device, t graph.DType) (*stretchedSum, error) {
	s := &stretchedSum{sum: &reduceKernel{fold: foldSum, width: packWidth(graph.Float32), accBytes: 4}}
	err := d.launches("reduce_f32",
		[]named{{&s.sum.rows, "sum_rows"}, {&s.sum.columns, "sum_columns"}, {&s.sum.parts, "sum_parts"}})
	if err == nil && t != graph.Float32 {
		s.round, err = d.launch("cast", "cast_f32_"+suffix(t))
	}
	return s, err
}

// stretch finds the axes of full that shape is stretched along.
func (s *stretchedSum) stretch(full, shape []int) {
	s.folded, s.shape = s.folded[:0], s.shape[:0]
	for i, d := range full {
		at, have := i-(len(full)-len(shape)), 1
		if at >= 0 {
			have = shape[at]
		}
		s.folded = append(s.folded, have != d)
		s.shape = append(s.shape, have)
	}
}

// space returns the workspace of run.
func (s *stretchedSum) space(full, shape []int) int {
	if len(shape) > len(full) {
		return 0
	}
	s.stretch(full, shape)
	n := s.sum.spaceFor(full, s.shape)
	if s.round != nil {
		n += executor.RoundUp(4 * elements(shape))
	}
	return n
}

// run adds up the terms into y.
func (s *stretchedSum) run(c *executor.Ctx, terms, y *executor.Tensor) error {
	s.stretch(terms.Shape, y.Shape)
	s.sum.plan.set(terms.Shape, s.folded)
	switch {
	case !s.sum.plan.fits():
		return c.Errorf("axes of shape %v alternate more often than the CUDA kernels allow: %d times",
			terms.Shape, maxFolds)
	case y.Len() == 0:
		return nil
	}
	s.sums.DType, s.sums.Shape, s.sums.Data = graph.Float32, s.shape, y.Data
	if s.round != nil {
		s.sums.Data = c.Scratch(4 * y.Len())
	}
	if err := s.sum.reduce(c, terms, &s.sums); err != nil || s.round == nil {
		return err
	}
	s.round.begin().In(s.sums.Data).Out(y.Data).Int(y.Len()).Float32(0).Float32(0)
	return s.round.line(y.Len(), 4)
}
