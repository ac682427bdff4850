package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// embedNormKernel is ONNX Runtime's EmbedLayerNormalization: the sum s[b,t] = word[ids[b,t]] +
// position[p] + segment[segments[b,t]], where p is t or from input 8, and its norm over the last
// axis. Output 1 counts, for each row of the batch, the mask's elements that are 1; without a mask
// it is 0. Output 2 is s.
type embedNormKernel[T normElem] struct {
	epsilon float64

	seq, n                  int
	ids, segments, at       []int32
	atStep                  int // 0 if all have the same positions
	word, position, segment []T
	gamma, beta             []T
	y, sum                  normTensor[T]
}

func newEmbedNorm(p *executor.Prep) (executor.Kernel, error) {
	for _, i := range []int{0, 2, 3, 5, 6} {
		if !p.Has(i) {
			return nil, p.Errorf("input %d is left out", i)
		}
	}
	for _, i := range []int{0, 1, 7, 8} {
		if p.Has(i) && p.DType(i) != graph.Int32 {
			return nil, unsupportedTypes(p)
		}
	}
	if !normOneType(p.In[2:min(7, len(p.In))]) || p.Has(1) != p.Has(4) {
		return nil, unsupportedTypes(p)
	}
	epsilon := float64(p.Node.Float("epsilon", 1e-12))
	switch p.DType(2) {
	case graph.Float32:
		return &embedNormKernel[float32]{epsilon: epsilon}, nil
	case graph.Float64:
		return &embedNormKernel[float64]{epsilon: epsilon}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run looks up, adds and normalises.
func (k *embedNormKernel[T]) Run(c *executor.Ctx) error {
	ids := c.In(0)
	if ids.Rank() != 2 {
		return c.Errorf("input 0, the ids, is %v, wanted rank 2", ids)
	}
	batch, word := ids.Shape[0], c.In(2)
	k.seq = ids.Shape[1]
	if word.Rank() != 2 {
		return c.Errorf("input 2, the word table, is %v, wanted rank 2", word)
	}
	k.n = word.Shape[1]
	if err := k.read(c, batch); err != nil {
		return err
	}
	k.y = normOpen[T](c.Out(0, batch, k.seq, k.n))
	if k.sum = normOpen[T](c.Out(2, batch, k.seq, k.n)); !k.sum.given() {
		k.sum = k.y
	}
	if t := c.Out(1, batch); t != nil {
		countMask(executor.Of[int32](t), c.In(7))
	}
	if k.y.given() {
		c.Parallel(batch*k.seq, normGrain(3*k.n), k)
	}
	return nil
}

func (k *embedNormKernel[T]) read(c *executor.Ctx, batch int) error {
	rows := batch * k.seq
	k.word, k.position, k.segment = normData[T](c, 2), normData[T](c, 3), normData[T](c, 4)
	k.gamma, k.beta = normData[T](c, 5), normData[T](c, 6)
	for _, i := range [2]int{5, 6} {
		if err := normVector(c, i, "scale or shift", k.n); err != nil {
			return err
		}
	}
	for _, i := range [2]int{1, 7} {
		if t := c.In(i); t != nil && t.Len() != rows {
			return c.Errorf("input %d is %v, wanted shape [%d %d]", i, t, batch, k.seq)
		}
	}
	k.ids, k.segments, k.at = executor.Of[int32](c.In(0)), nil, nil
	if err := k.table(c, 2, 0, k.ids); err != nil {
		return err
	}
	if t := c.In(1); t != nil {
		k.segments = executor.Of[int32](t)
		if err := k.table(c, 4, 1, k.segments); err != nil {
			return err
		}
	}
	if t := c.In(8); t != nil {
		k.at, k.atStep = executor.Of[int32](t), k.seq
		if len(k.at) == k.seq {
			k.atStep = 0
		} else if len(k.at) != rows {
			return c.Errorf("input 8, the positions, is %v, wanted shape [%d %d]", t, batch, k.seq)
		}
	} else if t := c.In(3); t.Rank() != 2 || t.Shape[0] < k.seq {
		return c.Errorf("input 3, the position table, is %v, wanted at least %d rows", t, k.seq)
	}
	return k.table(c, 3, 8, k.at)
}

// table checks a table and the rows requested from it.
func (k *embedNormKernel[T]) table(c *executor.Ctx, table, from int, rows []int32) error {
	t := c.In(table)
	if t.Rank() != 2 || t.Shape[1] != k.n {
		return c.Errorf("input %d, a table, is %v, wanted rows of %d elements", table, t, k.n)
	}
	for i, r := range rows {
		if r < 0 || int(r) >= t.Shape[0] {
			return c.Errorf("element %d of input %d is %d; input %d has %d rows", i, from, r, table, t.Shape[0])
		}
	}
	return nil
}

// countMask counts the ones in each row of the mask.
func countMask(dst []int32, mask *executor.Tensor) {
	clear(dst)
	if mask == nil || len(dst) == 0 {
		return
	}
	m := executor.Of[int32](mask)
	for i := range dst {
		for _, v := range m[i*len(m)/len(dst) : (i+1)*len(m)/len(dst)] {
			if v == 1 {
				dst[i]++
			}
		}
	}
}

// Range does rows lo..hi-1.
func (k *embedNormKernel[T]) Range(lo, hi int) {
	var buf [normBlock]T
	n := k.n
	for ; lo < hi; lo++ {
		at := lo % k.seq
		if k.at != nil {
			at = int(k.at[lo/k.seq*k.atStep+at])
		}
		sum, id := k.sum.data[lo*n:(lo+1)*n], int(k.ids[lo])
		normAdd(sum, k.word[id*n:(id+1)*n], k.position[at*n:(at+1)*n])
		if k.segments != nil {
			s := int(k.segments[lo])
			normAdd(sum, sum, k.segment[s*n:(s+1)*n])
		}
		m, inv := normRowStats(buf[:], &k.sum, lo*n, n, false, k.epsilon)
		normRow(buf[:], &k.y, &k.sum, lo*n, n, k.gamma, k.beta, m, inv)
	}
}
