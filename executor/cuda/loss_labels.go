package cuda

import (
	"cmp"
	"fmt"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// lossLabels is the common part of losses and their gradients: scores [N, C, D], labels [N, D] that
// choose a class, and weights of the classes. The kernels read labels that were checked before:
// int32, -1 for ignored ones.
type lossLabels struct {
	reduction string
	ignores   bool
	ignore    int64
	scoresAt  int // input slots; -1 if the operator has no such input
	ignoreAt  int

	n, c, places int
	count        int // labels
	check        *launch
	wrong        outside
}

// newLossLabels checks attributes and types; inputs of type T are listed in same.
func newLossLabels(d *Device, p *executor.Prep, scoresAt, ignoreAt int, same ...int) (lossLabels, error) {
	l := lossLabels{wrong: outside{d: d}, reduction: p.Node.Str("reduction", "mean"), scoresAt: scoresAt,
		ignoreAt: ignoreAt,
		ignore:   p.Node.Int("ignore_index", 0), ignores: ignoreAt < 0 && p.Node.Attr("ignore_index") != nil}
	t := p.DType(scoresAt)
	if t := p.DType(scoresAt + 1); t != graph.Int32 && t != graph.Int64 {
		return l, noTypes(p)
	}
	for i, have := range p.In {
		if i != scoresAt+1 && i != ignoreAt && have != graph.Undefined && !isFloat(have) {
			return l, noTypes(p)
		}
	}
	for _, i := range same {
		if have := p.DType(i); have != graph.Undefined && have != t {
			return l, noTypes(p)
		}
	}
	for _, have := range p.Out {
		if have != graph.Undefined && !isFloat(have) {
			return l, noTypes(p)
		}
	}
	var err error
	l.check, err = d.launch("labels", "labels_"+suffix(p.DType(scoresAt+1)))
	return l, err
}

// read checks the operands and the ignored index.
func (l *lossLabels) read(c *executor.Ctx) error {
	x, labels := c.In(l.scoresAt), c.In(l.scoresAt+1)
	bad := x.Rank() < 2 || labels.Rank() != x.Rank()-1 || labels.Shape[0] != x.Shape[0]
	for i := 2; i < x.Rank() && !bad; i++ {
		bad = labels.Shape[i-1] != x.Shape[i]
	}
	if bad {
		return c.Errorf("input %d, the labels, is %v; scores of shape %v want their shape without axis 1",
			l.scoresAt+1, labels, x.Shape)
	}
	l.n, l.c, l.places = x.Shape[0], x.Shape[1], elements(x.Shape[2:])
	if err := channelVector(c, l.scoresAt+2, "weights", l.c); err != nil {
		return err
	}
	if l.ignoreAt >= 0 {
		if l.ignores = c.In(l.ignoreAt) != nil; l.ignores {
			v, err := operand.Scalar(c, l.ignoreAt, "the ignored index")
			if err != nil {
				return err
			}
			l.ignore = v
		}
	}
	l.count = labels.Len()
	return nil
}

// space is the workspace of labels.
func (l *lossLabels) space(in [][]int) int {
	if l.scoresAt+1 >= len(in) || in[l.scoresAt+1] == nil {
		return 0
	}
	return executor.RoundUp(4*elements(in[l.scoresAt+1])) + executor.RoundUp(outsideBytes)
}

// checked returns the checked labels, in workspace on the device.
func (l *lossLabels) checked(c *executor.Ctx) ([]byte, error) {
	to := c.Scratch(4 * l.count)
	if l.count == 0 {
		return to, nil
	}
	bad, err := l.wrong.begin(c, l)
	if err != nil {
		return nil, err
	}
	labels := c.In(l.scoresAt + 1)
	l.check.begin().In(labels.Data).Out(to).Out(bad).Int(l.count).Int(l.c).Int(int(l.ignore)).
		Uint32(flag(l.ignores))
	if err := l.check.line(l.count, 1); err != nil {
		return nil, err
	}
	return to, l.wrong.end(c, labels, bad, l)
}

// describe makes the error of a label that is not a class.
func (l *lossLabels) describe(place int, value string) error {
	return fmt.Errorf("label %d of input %d is %s, wanted 0 to %d",
		place, l.scoresAt+1, cmp.Or(value, "out of range"), l.c-1)
}
