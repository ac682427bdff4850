package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/graph/op"
)

// newATen makes the kernel of a call to PyTorch's operator library, if it is one of those that
// exporters leave in training graphs.
func newATen(p *executor.Prep) (executor.Kernel, error) {
	name := op.ATenFunction(p.Node)
	row, ok := atenTable[name]
	switch {
	case !ok:
		return nil, p.Unsupported("no kernel for PyTorch's operator %q", p.Node.Str("operator", ""))
	case row.why != "":
		return nil, p.Unsupported("no kernel for PyTorch's operator %q: %s", name, row.why)
	}
	for i := range row.needs {
		if !p.Has(i) {
			return nil, p.Errorf("input %d is left out", i)
		}
	}
	return row.make(p)
}

// atenRow is the kernel of a function of PyTorch, or why there is none.
type atenRow struct {
	make  func(*executor.Prep) (executor.Kernel, error)
	needs int // the first inputs that must be given
	why   string
}

// fusedAttention is why PyTorch's fused attention has no kernel.
const fusedAttention = "it is written only with ORTMODULE_ATEN_SDPA_FALLBACK; without that, attention is products " +
	"and a softmax, which have kernels"

// atenTable has the functions that op.ATenFunctions lists.
var atenTable = map[string]atenRow{
	"_adaptive_avg_pool2d": {needs: 2, make: ofFloats(
		func() executor.Kernel { return newATenAdaptive[float32](false) },
		func() executor.Kernel { return newATenAdaptive[float64](false) })},
	"_adaptive_avg_pool2d_backward": {needs: 2, make: ofFloats(
		func() executor.Kernel { return newATenAdaptive[float32](true) },
		func() executor.Kernel { return newATenAdaptive[float64](true) })},
	"_scaled_dot_product_efficient_attention":          {why: fusedAttention},
	"_scaled_dot_product_efficient_attention_backward": {why: fusedAttention},
	"argmax":     {needs: 1, make: newATenExtreme(false, -1, 0)},
	"avg_pool2d": {needs: 2, make: ofFloats(newATenAvgPool[float32], newATenAvgPool[float64])},
	"avg_pool2d_backward": {needs: 3, make: ofFloats(newATenAvgPoolBackward[float32],
		newATenAvgPoolBackward[float64])},
	"bitwise_or.Tensor":        {needs: 2, make: newATenOr},
	"diagonal":                 {needs: 1, make: newMoved(operand.NewDiagonal)},
	"diagonal_backward":        {needs: 2, make: newATenViewBackward(operand.Diagonal)},
	"embedding":                {make: newEmbedding},
	"embedding_backward":       {make: newEmbeddingBackward},
	"embedding_dense_backward": {make: newEmbeddingBackward},
	"max":                      {needs: 1, make: newATenExtreme(false, 0, -1)},
	"max.dim":                  {needs: 2, make: newATenExtreme(false, 0, 1)},
	"max_pool2d_with_indices":  {needs: 2, make: ofFloats(newATenMaxPool[float32], newATenMaxPool[float64])},
	"max_pool2d_with_indices_backward": {needs: 2, make: ofFloats(newATenMaxPoolBackward[float32],
		newATenMaxPoolBackward[float64])},
	"min":               {needs: 1, make: newATenExtreme(true, 0, -1)},
	"min.dim":           {needs: 2, make: newATenExtreme(true, 0, 1)},
	"multinomial":       {why: "it draws by the state of PyTorch's generator"},
	"native_group_norm": {needs: 8, make: ofFloats(newATenGroupNorm[float32], newATenGroupNorm[float64])},
	"native_group_norm_backward": {needs: 5, make: ofFloats(newATenGroupNormBackward[float32],
		newATenGroupNormBackward[float64])},
	"numpy_T":                      {needs: 1, make: newMoved(operand.NewPermutation)},
	"unfold":                       {needs: 4, make: newMoved(operand.NewUnfold)},
	"unfold_backward":              {needs: 5, make: newATenViewBackward(operand.Unfold)},
	"upsample_bicubic2d.vec":       {needs: 1, make: newResize},
	"upsample_bicubic2d_backward":  {needs: 3, make: widened(newResizeGrad)},
	"upsample_bilinear2d.vec":      {needs: 1, make: newResize},
	"upsample_bilinear2d_backward": {needs: 3, make: widened(newResizeGrad)},
	"upsample_nearest1d.vec":       {needs: 1, make: newResize},
	"upsample_nearest1d_backward":  {needs: 3, make: widened(newResizeGrad)},
	"upsample_nearest2d.vec":       {needs: 1, make: newResize},
	"upsample_nearest2d_backward":  {needs: 3, make: widened(newResizeGrad)},
	"upsample_nearest3d.vec":       {needs: 1, make: newResize},
	"upsample_nearest3d_backward":  {needs: 3, make: widened(newResizeGrad)},
	"value_selecting_reduction_backward": {needs: 4, make: ofFloats(newATenSelected[float32],
		newATenSelected[float64])},
}

// newATenOr makes bitwise_or, of integers or bools.
func newATenOr(p *executor.Prep) (executor.Kernel, error) {
	inner, node := *p, *p.Node
	inner.Node, inner.Version = &node, 18
	if node.Kind = op.BitwiseOr; p.DType(0) == graph.Bool {
		node.Kind = op.Or
	}
	inner.Info = op.Of(node.Kind)
	return newBitwise(&inner)
}

// newEmbedding: rows of a matrix by indices. The other inputs (padding_idx, scale_grad_by_freq,
// sparse) are for the gradient.
func newEmbedding(p *executor.Prep) (executor.Kernel, error) {
	k, err := newGather(p)
	if err != nil {
		return nil, err
	}
	g := k.(*gatherKernel)
	g.at, g.index.strict = operand.Gathering{}, true
	return g, nil
}

// embeddingBackward is the gradient of embedding, a Gather of rows of a matrix, as PyTorch defines
// it: inputs are the incoming gradient, the indices, how many rows there are (or the matrix
// itself), and optionally padding_idx, whose rows get no gradient, scale_grad_by_freq, which
// divides each row by the count of its index, and sparse, which is about PyTorch's storage of the
// result and does not change its values.
// https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
type embeddingBackward struct {
	rowsGrad
	often []int // how often each row occurs
	data  []byte
}

func newEmbeddingBackward(p *executor.Prep) (executor.Kernel, error) {
	return widened(makeEmbeddingBackward)(p)
}

func makeEmbeddingBackward(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	if d := p.DType(0); d != graph.Float32 && d != graph.Float64 {
		return nil, unsupportedTypes(p)
	}
	k := &embeddingBackward{}
	k.index.strict = true
	return k, k.init(p, 0)
}

// Workspace holds the offsets.
func (k *embeddingBackward) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run adds up the rows by index.
func (k *embeddingBackward) Run(c *executor.Ctx) error {
	dy, at := c.In(0), c.In(1)
	if dy.Rank() != at.Rank()+1 || !operand.Joined(dy.Shape, at.Shape, dy.Shape[dy.Rank()-1:]) {
		return c.Errorf("input 0 has shape %v, wanted %v and one more dim", dy.Shape, at.Shape)
	}
	rows, err := k.rows(c)
	if err != nil {
		return err
	}
	k.outer, k.n, k.inner = 1, at.Len(), dy.Shape[dy.Rank()-1]
	k.shape = append(k.shape[:0], rows, k.inner)
	k.stride = operand.Times(rows, k.inner)
	k.index.single(k.n, rows, k.inner)
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	padding, err := operand.Int(c, 3, -1)
	if err != nil {
		return err
	}
	if padding >= 0 && padding < rows {
		k.skip(int64(padding * k.inner))
	}
	dx := k.finish(c, 0)
	if moveFlag(c.In(4)) && dx != nil && k.inner > 0 {
		k.scale(c, dx, rows)
	}
	return nil
}

// rows reads how many rows the matrix has.
func (k *embeddingBackward) rows(c *executor.Ctx) (int, error) {
	w := c.In(2)
	if w.DType.IsFloat() && w.Rank() > 0 {
		return w.Shape[0], nil
	}
	rows, err := operand.Int(c, 2, 0)
	if err == nil && rows < 0 {
		err = c.Errorf("input 2 is %d, wanted a number of rows", rows)
	}
	return rows, err
}

// moveFlag reports whether a flag is given and set.
func moveFlag(x *executor.Tensor) bool {
	return x != nil && x.DType == graph.Bool && len(x.Data) == 1 && x.Data[0] != 0
}

// skip drops the rows that have an offset.
func (k *embeddingBackward) skip(offset int64) {
	for i, o := range k.index.offsets {
		if o == offset {
			k.index.offsets[i] = -1
		}
	}
}

// scale divides the rows by how often they occur.
func (k *embeddingBackward) scale(c *executor.Ctx, dx *executor.Tensor, rows int) {
	if cap(k.often) < rows {
		k.often = make([]int, rows)
	}
	k.often = k.often[:rows]
	clear(k.often)
	for _, o := range k.index.offsets {
		if o >= 0 {
			k.often[int(o)/k.inner]++
		}
	}
	k.data = dx.Data
	c.Parallel(rows, 1+(16<<10)/max(k.inner, 1), (*embeddingScale)(k))
}

type embeddingScale embeddingBackward

// Range scales the rows lo..hi-1.
func (k *embeddingScale) Range(lo, hi int) {
	if k.dtype == graph.Float64 {
		embeddingScaleRows[float64]((*embeddingBackward)(k), lo, hi)
	} else {
		embeddingScaleRows[float32]((*embeddingBackward)(k), lo, hi)
	}
}

func embeddingScaleRows[T float32 | float64](k *embeddingBackward, lo, hi int) {
	d := executor.Cast[T](k.data)
	for r := lo; r < hi; r++ {
		if n := k.often[r]; n > 1 {
			row := d[r*k.inner : (r+1)*k.inner]
			for i := range row {
				row[i] /= T(n)
			}
		}
	}
}
