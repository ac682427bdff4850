package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// Gradients of Gather and GatherND, with the inputs shape of the data, indices and incoming
// gradient: zeros, to which every row of the gradient is added where it came from.

// rowsGrad is what they share.
type rowsGrad struct {
	scatterRows
	filler
	shape []int
}

func (k *rowsGrad) init(p *executor.Prep, grad int) error {
	if _, err := moveSize(p, grad); err != nil {
		return err
	}
	if !canCombine(p.DType(grad)) {
		return unsupportedTypes(p)
	}
	k.dtype, k.reduce = p.DType(grad), sum
	return nil
}

// finish makes output 0, adds the rows of input grad and returns it.
func (k *rowsGrad) finish(c *executor.Ctx, grad int) *executor.Tensor {
	dx := c.Out(0, k.shape...)
	if dx != nil {
		k.zero(c, dx.Data)
		k.scatterRows.run(c, dx.Data, c.In(grad).Data)
	}
	return dx
}

// gatherGradKernel is the gradient of Gather.
type gatherGradKernel struct {
	rowsGrad
	axis int64
}

func newGatherGrad(p *executor.Prep) (executor.Kernel, error) { return widened(makeGatherGrad)(p) }

func makeGatherGrad(p *executor.Prep) (executor.Kernel, error) {
	k := &gatherGradKernel{axis: p.Node.Int("axis", 0)}
	return k, k.init(p, 2)
}

// Workspace holds the offsets.
func (k *gatherGradKernel) Workspace(in, _ [][]int) int { return indexBytes(product(in[1])) }

// Run adds up the rows by index.
func (k *gatherGradKernel) Run(c *executor.Ctx) error {
	at, dy := c.In(1), c.In(2)
	var err error
	if k.shape, err = moveShape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	axis, err := moveAxis(c, k.axis, len(k.shape))
	if err != nil {
		return err
	}
	lead, rest := k.shape[:axis], k.shape[axis+1:]
	tail := dy.Shape[min(axis, dy.Rank()):]
	if dy.Rank() < axis || !isJoined(dy.Shape[:axis], lead, nil) || !isJoined(tail, at.Shape, rest) {
		return c.Errorf("input 2 has shape %v, wanted %v, %v and %v", dy.Shape, lead, at.Shape, rest)
	}
	k.outer, k.n, k.inner = product(lead), at.Len(), product(rest)
	k.stride = k.shape[axis] * k.inner
	k.index.single(k.n, k.shape[axis], k.inner)
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	k.finish(c, 2)
	return nil
}

// gatherNDGradKernel is the gradient of GatherND.
type gatherNDGradKernel struct {
	rowsGrad
	batch int64
}

func newGatherNDGrad(p *executor.Prep) (executor.Kernel, error) {
	return widened(makeGatherNDGrad)(p)
}

func makeGatherNDGrad(p *executor.Prep) (executor.Kernel, error) {
	k := &gatherNDGradKernel{batch: p.Node.Int("batch_dims", 0)}
	return k, k.init(p, 2)
}

// Workspace holds the offsets.
func (k *gatherNDGradKernel) Workspace(in, _ [][]int) int { return tupleBytes(in[1]) }

// Run adds up the slices by tuple.
func (k *gatherNDGradKernel) Run(c *executor.Ctx) error {
	at, dy := c.In(1), c.In(2)
	var err error
	if k.shape, err = moveShape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	if n, ok := executor.Bytes(k.dtype, k.shape); !ok {
		return c.Errorf("input 0 lists the shape %v, of %d bytes", k.shape, n)
	}
	depth, err := k.index.tuples(c, k.shape, 1, k.batch)
	if err != nil {
		return err
	}
	lead, rest := at.Shape[:at.Rank()-1], k.shape[int(k.batch)+depth:]
	if !isJoined(dy.Shape, lead, rest) {
		return c.Errorf("input 2 has shape %v, wanted %v and %v", dy.Shape, lead, rest)
	}
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	k.outer, k.n, k.inner, k.stride = 1, k.index.count, product(rest), product(k.shape)
	k.finish(c, 2)
	return nil
}

// embeddingBackward is the gradient of embedding, a Gather of rows of a matrix, as PyTorch defines it:
// inputs are the incoming gradient, the indices, how many rows there are (or the matrix itself), and
// optionally padding_idx, whose rows get no gradient, scale_grad_by_freq, by which
// each row is divided by how often its index occurs, and sparse, which says how PyTorch would
// store the result and changes no number.
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
	if !p.Has(1) || !p.Has(2) {
		return nil, p.Errorf("has no inputs 1 and 2, wanted indices and the number of rows")
	}
	if d := p.DType(0); d != graph.Float32 && d != graph.Float64 {
		return nil, unsupportedTypes(p)
	}
	k := &embeddingBackward{}
	k.index.strict = true
	return k, k.init(p, 0)
}

// Workspace holds the offsets.
func (k *embeddingBackward) Workspace(in, _ [][]int) int { return indexBytes(product(in[1])) }

// Run adds up the rows by index.
func (k *embeddingBackward) Run(c *executor.Ctx) error {
	dy, at := c.In(0), c.In(1)
	if dy.Rank() != at.Rank()+1 || !isJoined(dy.Shape, at.Shape, dy.Shape[dy.Rank()-1:]) {
		return c.Errorf("input 0 has shape %v, wanted %v and one more dim", dy.Shape, at.Shape)
	}
	rows, err := k.rows(c)
	if err != nil {
		return err
	}
	k.outer, k.n, k.inner = 1, at.Len(), dy.Shape[dy.Rank()-1]
	k.shape = append(k.shape[:0], rows, k.inner)
	k.stride = moveTimes(rows, k.inner)
	k.index.single(k.n, rows, k.inner)
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	padding, err := moveInt(c, 3, -1)
	if err != nil {
		return err
	}
	if padding >= 0 && padding < rows {
		k.skip(int64(padding * k.inner))
	}
	dx := k.finish(c, 0)
	if isTrue(c.In(4)) && dx != nil && k.inner > 0 {
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
	rows, err := moveInt(c, 2, 0)
	if err == nil && rows < 0 {
		err = c.Errorf("input 2 is %d, wanted a number of rows", rows)
	}
	return rows, err
}

// isTrue reports whether a flag is given and set.
func isTrue(x *executor.Tensor) bool {
	return x != nil && x.DType == graph.Bool && len(x.Data) == 1 && x.Data[0] != 0
}

// skip takes out the rows with an offset.
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
		scaleRows[float64]((*embeddingBackward)(k), lo, hi)
	} else {
		scaleRows[float32]((*embeddingBackward)(k), lo, hi)
	}
}

func scaleRows[T float32 | float64](k *embeddingBackward, lo, hi int) {
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
