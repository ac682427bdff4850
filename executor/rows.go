package executor

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/planner/arena"
)

// rows are the rows that iterations add to one scan output: tensors of one type and shape, in the
// order of the iterations. They are packed in blocks of the arena, so that a row takes only its
// contents: their number is not known in advance, and the arena's limit must hold for all of them.
type rows struct {
	dtype graph.DType
	shape []int // of each
	size  int   // bytes of each
	n     int
	// blocks hold the rows; the last one has room for more where left is not 0.
	blocks [][]byte
	left   int // rows
}

// Small rows share a block of up to rowBlock bytes: many compared with the some 200 bytes that Go
// and the arena keep about a block, and few compared with the memory of a step.
const rowBlock = 4 << 10

// add copies a tensor behind the rows; all must have the first one's shape.
func (r *rows) add(from *share, t *Tensor) error {
	switch {
	case r.n == 0:
		r.dtype, r.size = t.DType, len(t.Data)
		r.shape = append(r.shape[:0], t.Shape...)
	case !slices.Equal(r.shape, t.Shape):
		return fmt.Errorf("a row is %v in iteration %d and %v before; all must be equal",
			t, r.n, &Tensor{DType: r.dtype, Shape: r.shape})
	}
	if r.size == 0 {
		r.n++
		return nil
	}
	if r.left == 0 {
		// A block holds as many rows as there are, within bounds: little is unused.
		fit := max(1, arena.Alignment/r.size, min(r.n, rowBlock/r.size))
		block, err := from.Alloc(fit * r.size)
		if err != nil {
			return err
		}
		r.blocks, r.left = append(r.blocks, block), fit
	}
	block := r.blocks[len(r.blocks)-1]
	copy(block[len(block)-r.left*r.size:], t.Data)
	r.left--
	r.n++
	return nil
}

// each calls f with the contents of every row.
func (r *rows) each(f func(i int, data []byte)) {
	if r.size == 0 {
		return // the rows are empty
	}
	i := 0
	for _, block := range r.blocks {
		for ; len(block) > 0 && i < r.n; i++ {
			f(i, block[:r.size])
			block = block[r.size:]
		}
	}
}

// release frees the blocks; there are no rows any more.
func (r *rows) release(from *share) {
	for _, block := range r.blocks {
		from.Free(block)
	}
	*r = rows{shape: r.shape[:0], blocks: r.blocks[:0]}
}
