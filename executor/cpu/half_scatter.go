package cpu

import (
	"cmp"
	"slices"

	"memopt/executor"
)

// halfScatterND is ScatterND with a reduction of a 16-bit type. It computes in float32 and rounds each slice once, as a
// kernel of converted copies does, but needs memory for the order of the indices alone: updates of one slice follow
// each other in it.
type halfScatterND struct {
	*scatterNDKernel
	order []int32
}

// makeHalfScatterND makes the kernel.
func makeHalfScatterND(p *executor.Prep) (executor.Kernel, error) {
	if _, err := moveSize(p, 0, 2); err != nil {
		return nil, err
	}
	inner := *p
	inner.In, inner.Out = widening.types(p.In), widening.types(p.Out)
	made, err := makeScatterND(&inner)
	if err != nil {
		return nil, err
	}
	k := made.(*scatterNDKernel)
	k.dtype = p.DType(0)
	return &halfScatterND{scatterNDKernel: k}, nil
}

// Workspace holds the offsets and their order.
func (k *halfScatterND) Workspace(in, out [][]int) int {
	n := 0
	if len(in[1]) > 0 {
		n = product(in[1][:len(in[1])-1])
	}
	return k.scatterNDKernel.Workspace(in, out) + executor.RoundUp(4*n)
}

// Run copies the data, unless it is in place, and scatters.
func (k *halfScatterND) Run(c *executor.Ctx) error {
	y, u, err := k.prepare(c)
	if y == nil || err != nil {
		return err
	}
	if k.n*k.inner == 0 {
		return nil
	}
	k.dst, k.src = y.Data, u.Data
	k.order = executor.ScratchOf[int32](c, k.n)
	for i := range k.order {
		k.order[i] = int32(i)
	}
	at := k.index.offsets
	slices.SortFunc(k.order, func(a, b int32) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a, b)) })
	c.Parallel(k.n, 1+(16<<10)/k.inner, k)
	return nil
}

// Range does the slices whose first updates are lo..hi-1 in the order.
func (k *halfScatterND) Range(lo, hi int) {
	at := k.index.offsets
	for i := lo; i < hi; i++ {
		o := at[k.order[i]]
		if o < 0 || i > 0 && at[k.order[i-1]] == o {
			continue
		}
		end := i + 1
		for end < k.n && at[k.order[end]] == o {
			end++
		}
		k.slice(int(o), k.order[i:end])
	}
}

// slice combines a slice with its updates.
func (k *halfScatterND) slice(at int, updates []int32) {
	var sum, more [chunkLen]float32
	for from := 0; from < k.inner; from += chunkLen {
		n := min(chunkLen, k.inner-from)
		d := k.dst[2*(at+from):][:2*n]
		widen(sum[:n], k.dtype, d)
		for _, u := range updates {
			widen(more[:n], k.dtype, k.src[2*(int(u)*k.inner+from):][:2*n])
			scatterCombine(k.reduce, sum[:n], more[:n])
		}
		narrow(k.dtype, d, sum[:n])
	}
}
