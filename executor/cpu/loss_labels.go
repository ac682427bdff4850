package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// lossOperands are the common operands of losses and their gradients: scores [N, C, d…], labels [N,
// d…] that choose a class, and weights [C]. A label equal to the ignored index, which need not be a
// class, takes no part.
type lossOperands[T normElem] struct {
	reduction  string
	ignores    bool
	ignore     int64
	scoresAt   int // input slots; -1 if the operator has no such input
	labelsAt   int
	weightAt   int
	ignoreAt   int
	n, c, d    int
	labels     []int32 // [N, d]; -1 is ignored
	weight     []T
	sumWeights float64 // of the labels that take part
}

func newLossOperands[T normElem](p *executor.Prep, scoresAt, ignoreAt int) (lossOperands[T], error) {
	o := lossOperands[T]{reduction: p.Node.Str("reduction", "mean"), scoresAt: scoresAt, labelsAt: scoresAt + 1,
		weightAt: scoresAt + 2, ignoreAt: ignoreAt, ignore: p.Node.Int("ignore_index", 0),
		ignores: ignoreAt < 0 && p.Node.Attr("ignore_index") != nil}
	switch o.reduction {
	case "none", "mean", "sum":
	default:
		return o, p.Errorf("attribute reduction is %q, wanted none, mean or sum", o.reduction)
	}
	if d := p.DType(o.labelsAt); d != graph.Int32 && d != graph.Int64 {
		return o, unsupportedTypes(p)
	}
	want := normAccumulates(p.DType(scoresAt))
	for i, d := range p.In {
		if i != o.labelsAt && i != ignoreAt && d != graph.Undefined && normAccumulates(d) != want {
			return o, unsupportedTypes(p)
		}
	}
	for _, d := range p.Out {
		if d != graph.Undefined && normAccumulates(d) != want {
			return o, unsupportedTypes(p)
		}
	}
	return o, nil
}

// space is the workspace that read takes.
func (o *lossOperands[T]) space(in [][]int) int {
	if o.labelsAt >= len(in) {
		return 0
	}
	return executor.RoundUp(4*product(in[o.labelsAt])) + normWideSpace(in, o.weightAt, o.weightAt)
}

// read checks the operands and sets the fields that follow from them.
func (o *lossOperands[T]) read(c *executor.Ctx) error {
	x, labels := c.In(o.scoresAt), c.In(o.labelsAt)
	bad := x.Rank() < 2 || labels.Rank() != x.Rank()-1 || labels.Shape[0] != x.Shape[0]
	for i := 2; i < x.Rank() && !bad; i++ {
		bad = labels.Shape[i-1] != x.Shape[i]
	}
	if bad {
		return c.Errorf("input %d, the labels, is %v; scores of shape %v want their shape without axis 1",
			o.labelsAt, labels, x.Shape)
	}
	o.n, o.c, o.d = x.Shape[0], x.Shape[1], product(x.Shape[2:])
	if err := normVector(c, o.weightAt, "weights", o.c); err != nil {
		return err
	}
	o.weight = normWide[T](c, o.weightAt)
	if o.ignoreAt >= 0 {
		o.ignores = c.In(o.ignoreAt) != nil
		if o.ignores {
			v, err := operand.Scalar(c, o.ignoreAt, "the ignored index")
			if err != nil {
				return err
			}
			o.ignore = v
		}
	}
	o.labels = executor.Cast[int32](c.Scratch(4 * labels.Len()))
	at := -1
	var wrong int64
	if labels.DType == graph.Int64 {
		at, wrong = readLabels(o.labels, executor.Of[int64](labels), o.c, o.ignores, o.ignore)
	} else {
		at, wrong = readLabels(o.labels, executor.Of[int32](labels), o.c, o.ignores, o.ignore)
	}
	if at >= 0 {
		return c.Errorf("label %d of input %d is %d, wanted 0 to %d", at, o.labelsAt, wrong, o.c-1)
	}
	o.sumUp()
	return nil
}

// readLabels copies labels and puts -1 for ignored ones. It returns the place of the first that is
// out of range, or -1.
func readLabels[L int32 | int64](dst []int32, src []L, classes int, ignores bool, ignore int64) (at int, wrong int64) {
	for i, l := range src {
		switch v := int64(l); {
		case ignores && v == ignore:
			dst[i] = -1
		case v < 0 || v >= int64(classes):
			return i, v
		default:
			dst[i] = int32(v)
		}
	}
	return -1, 0
}

// sumUp adds up the weights of the labels, or counts them.
func (o *lossOperands[T]) sumUp() {
	o.sumWeights = 0
	if o.reduction != "mean" {
		return
	}
	for _, l := range o.labels {
		switch {
		case l < 0:
		case o.weight == nil:
			o.sumWeights++
		default:
			o.sumWeights += float64(o.weight[l])
		}
	}
}

// weightOf returns the weight of a label, 0 for one that is ignored.
func (o *lossOperands[T]) weightOf(l int32) T {
	switch {
	case l < 0:
		return 0
	case o.weight == nil:
		return 1
	}
	return o.weight[l]
}
