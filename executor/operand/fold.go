package operand

import (
	"memopt/executor"
	"memopt/graph"
)

// FoldAxes reads which axes a reduction folds and builds the shape of its result. The axes were an
// attribute before some version of the operator and are input 1 from then on. No axes means all
// axes. With noop_with_empty_axes it means that no axis is folded: the operator's function is
// applied to each element alone, as ONNX clarified after the first releases of version 18.
type FoldAxes struct {
	Folded []bool // per axis of the input
	Shape  []int  // of the result

	input bool // axes are input 1
	attr  []int64
	keep  bool
	noop  bool
}

// NewFoldAxes reads the attributes of an operator whose axes are an input since a version.
func NewFoldAxes(p *executor.Prep, since int) FoldAxes {
	return FoldAxes{input: p.Version >= since, attr: p.Node.IntList("axes", nil),
		keep: p.Node.Int("keepdims", 1) == 1, noop: p.Node.Int("noop_with_empty_axes", 0) == 1}
}

// Read sets Folded and Shape for input 0.
func (f *FoldAxes) Read(c *executor.Ctx) error {
	in, list := c.In(0).Shape, f.attr
	if f.input {
		list = nil
		if t := c.In(1); t != nil {
			if t.DType != graph.Int64 || t.Rank() > 1 {
				return c.Errorf("input 1, the axes, is %v, wanted a vector of int64", t)
			}
			list = executor.Of[int64](t)
		}
	}
	if err := f.fold(c, list, len(in)); err != nil {
		return err
	}
	f.Shape = f.Shape[:0]
	for i, d := range in {
		switch {
		case !f.Folded[i]:
			f.Shape = append(f.Shape, d)
		case f.keep:
			f.Shape = append(f.Shape, 1)
		}
	}
	return nil
}

// fold sets Folded for the axes that a list names.
func (f *FoldAxes) fold(c *executor.Ctx, list []int64, rank int) error {
	all := len(list) == 0 && !f.noop
	f.Folded = f.Folded[:0]
	for range rank {
		f.Folded = append(f.Folded, all)
	}
	for _, axis := range list {
		at, err := DataAxis(c, axis, rank)
		if err != nil {
			return err
		}
		if f.Folded[at] {
			return c.Errorf("axes %v list axis %d twice", list, at)
		}
		f.Folded[at] = true
	}
	return nil
}
