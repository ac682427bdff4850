package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// elementLines is the loop of the operators whose indices have the rank of the data and name, for
// each element, the place along one axis: GatherElements, ScatterElements and their gradient.
//
// A line is the elements along the axis, with everything else fixed. Lines are
// independent: element j of a line of the list (indices and updates, or result) belongs
// to element index[j] of the data's line at the same place.
type elementLines struct {
	index moveIndexer

	data, list      []byte
	size            int
	gather          bool // list[i] = data[…]; else data[…] is combined with list[i]
	dtype           graph.DType
	reduce          scatterReduction
	dims            []int // of the list, without the axis
	dataStep, steps []int // of data and list, without the axis
	long, step      int   // axis: length and step in the list
	inner           int   // lines that lie next to each other in both
	shapeSteps      []int
}

// prepare checks the list's shape against the data's and runs the indexer on input i.
func (k *elementLines) prepare(c *executor.Ctx, i int, data []int, axis int64) error {
	at := c.In(i)
	if at.Rank() != len(data) {
		return c.Errorf("input %d has shape %v, wanted the rank of the data, which has shape %v", i, at.Shape, data)
	}
	// A scalar counts as a list of one.
	if len(data) == 0 {
		k.dims, k.dataStep, k.steps = k.dims[:0], k.dataStep[:0], k.steps[:0]
		k.long, k.step, k.inner = 1, 1, 1
		k.index.single(1, 1, 1)
		return k.index.run(c, i)
	}
	a, err := operand.Axis(c, axis, len(data))
	if err != nil {
		return err
	}
	for j, d := range at.Shape {
		if j != a && d > data[j] {
			return c.Errorf("input %d has shape %v, which is longer than the data's %v in axis %d",
				i, at.Shape, data, j)
		}
	}
	k.dims, k.dataStep, k.steps = k.dims[:0], k.dataStep[:0], k.steps[:0]
	k.shapeSteps = operand.RowMajor(k.shapeSteps, data)
	n := at.Len()
	for j, d := range at.Shape {
		n /= max(d, 1)
		if j == a {
			k.long, k.step = d, n
			continue
		}
		k.addAxis(d, k.shapeSteps[j], n)
	}
	k.inner = 1
	if last := len(k.dims) - 1; last >= 0 && k.dataStep[last] == 1 && k.steps[last] == 1 {
		k.inner = k.dims[last]
	}
	k.index.single(at.Len(), data[a], k.shapeSteps[a])
	return k.index.run(c, i)
}

// addAxis adds an axis, merged with its neighbour if both arrays step through the two as through
// one.
func (k *elementLines) addAxis(n, data, list int) {
	last := len(k.dims) - 1
	if last >= 0 && k.dataStep[last] == n*data && k.steps[last] == n*list {
		k.dims[last] *= n
		k.dataStep[last], k.steps[last] = data, list
		return
	}
	k.dims, k.dataStep, k.steps = append(k.dims, n), append(k.dataStep, data), append(k.steps, list)
}

// run goes over the lines.
func (k *elementLines) run(c *executor.Ctx, data, list []byte) {
	if len(list) == 0 {
		return
	}
	k.data, k.list = data, list
	c.Parallel(product(k.dims), 1+(16<<10)/k.long, k)
}

// Range does the lines lo..hi-1.
func (k *elementLines) Range(lo, hi int) {
	if k.gather || k.reduce == scatterReplace {
		switch k.size {
		case 1:
			lineRange[uint8](k, lo, hi)
		case 2:
			lineRange[uint16](k, lo, hi)
		case 4:
			lineRange[uint32](k, lo, hi)
		case 8:
			lineRange[uint64](k, lo, hi)
		}
		return
	}
	switch k.dtype {
	case graph.Float32:
		lineRange[float32](k, lo, hi)
	case graph.Float64:
		lineRange[float64](k, lo, hi)
	case graph.Int8:
		lineRange[int8](k, lo, hi)
	case graph.Int16:
		lineRange[int16](k, lo, hi)
	case graph.Int32:
		lineRange[int32](k, lo, hi)
	case graph.Int64:
		lineRange[int64](k, lo, hi)
	case graph.Uint8:
		lineRange[uint8](k, lo, hi)
	case graph.Uint16:
		lineRange[uint16](k, lo, hi)
	case graph.Uint32:
		lineRange[uint32](k, lo, hi)
	case graph.Uint64:
		lineRange[uint64](k, lo, hi)
	}
}

func lineRange[T scatterElem](k *elementLines, lo, hi int) {
	data, list := executor.Cast[T](k.data), executor.Cast[T](k.list)
	for lo < hi {
		run := 1
		if k.inner > 1 {
			run = min(k.inner-lo%k.inner, hi-lo)
		}
		to, at, n := 0, 0, lo
		for i := len(k.dims) - 1; i >= 0; i-- {
			d := k.dims[i]
			x := n % d
			n /= d
			to += x * k.dataStep[i]
			at += x * k.steps[i]
		}
		if run == 1 {
			lineSingle(k, data[to:], list, at)
		} else {
			lineBlock(k, data[to:], list, at, run)
		}
		lo += run
	}
}

// lineSingle does the line that begins at list[at]; d begins with its first element in the data.
func lineSingle[T scatterElem](k *elementLines, d, list []T, at int) {
	switch {
	case k.gather:
		for range k.long {
			list[at] = d[k.index.offsets[at]]
			at += k.step
		}
	case k.step == 1:
		scatterAt(k.reduce, d, k.index.offsets[at:at+k.long], list[at:at+k.long], 0, int64(len(d)))
	default:
		for range k.long {
			scatterAt(k.reduce, d, k.index.offsets[at:at+1], list[at:at+1], 0, int64(len(d)))
			at += k.step
		}
	}
}

// lineBlock does n lines that lie next to each other, in lockstep.
func lineBlock[T scatterElem](k *elementLines, d, list []T, at, n int) {
	for range k.long {
		o, l := k.index.offsets[at:at+n], list[at:at+n]
		if k.gather {
			for i := range l {
				l[i] = d[int(o[i])+i]
			}
		} else {
			scatterAside(k.reduce, d, o, l)
		}
		at += k.step
	}
}

// scatterAside sets d[at[i]+i] to d[at[i]+i] and s[i], reduced.
func scatterAside[T scatterElem](r scatterReduction, d []T, at []int64, s []T) {
	at = at[:len(s)]
	switch r {
	case scatterReplace:
		for i, v := range s {
			d[int(at[i])+i] = v
		}
	case scatterAdd:
		for i, v := range s {
			d[int(at[i])+i] += v
		}
	case scatterMul:
		for i, v := range s {
			d[int(at[i])+i] *= v
		}
	case scatterMax:
		for i, v := range s {
			o := int(at[i]) + i
			d[o] = max(d[o], v)
		}
	case scatterMin:
		for i, v := range s {
			o := int(at[i]) + i
			d[o] = min(d[o], v)
		}
	}
}
