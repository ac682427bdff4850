package operand

import "memopt/executor"

// Triangle is the upper or lower triangle of the matrices in the last two axes of input 0, up to
// and including diagonal Diag: that of input 1, with 0 for the main one and positive numbers above
// it, or the nearest one that touches the matrix.
// https://onnx.ai/onnx/operators/onnx__Trilu.html
type Triangle struct {
	Upper            bool
	Rows, Cols, Diag int
}

// NewTriangle reads the attribute.
func NewTriangle(p *executor.Prep) Triangle { return Triangle{Upper: p.Node.Int("upper", 1) != 0} }

// Begin sets the numbers and makes output 0. It returns nil if the output is empty or not wanted.
func (t *Triangle) Begin(c *executor.Ctx) (y *executor.Tensor, err error) {
	x := c.In(0)
	if x.Rank() < 2 {
		return nil, c.Errorf("input 0 has shape %v, wanted matrices in the last two axes", x.Shape)
	}
	diag, err := Int(c, 1, 0)
	if err != nil {
		return nil, err
	}
	t.Rows, t.Cols = x.Shape[x.Rank()-2], x.Shape[x.Rank()-1]
	t.Diag = min(max(diag, -t.Rows), t.Cols)
	return outWithElements(c, x.Shape), nil
}
