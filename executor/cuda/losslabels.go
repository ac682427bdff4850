package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// lossLabels is what losses and their gradients share: scores [N, C, D], labels [N, D] that choose a class, and weights of the
// classes. The labels are looked at on the host, where a wrong one can be reported, and sent to the device.
type lossLabels struct {
	d         *Device
	reduction string
	ignores   bool
	ignore    int64
	scoresAt  int // input slots; -1: the operator has no such input
	ignoreAt  int

	n, c, places int
	labels       []int32 // -1 is ignored
}

// newLossLabels looks at attributes and types; inputs of type T are listed in same.
func newLossLabels(d *Device, p *executor.Prep, scoresAt, ignoreAt int, same ...int) (lossLabels, error) {
	l := lossLabels{d: d, reduction: p.Node.Str("reduction", "mean"), scoresAt: scoresAt, ignoreAt: ignoreAt,
		ignore: p.Node.Int("ignore_index", 0), ignores: ignoreAt < 0 && p.Node.Attr("ignore_index") != nil}
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
	return l, nil
}

// read checks the operands and finds the labels.
func (l *lossLabels) read(c *executor.Ctx) error {
	x, labels := c.In(l.scoresAt), c.In(l.scoresAt+1)
	bad := x.Rank() < 2 || labels.Rank() != x.Rank()-1 || labels.Shape[0] != x.Shape[0]
	for i := 2; i < x.Rank() && !bad; i++ {
		bad = labels.Shape[i-1] != x.Shape[i]
	}
	if bad {
		return c.Errorf("input %d, the labels, is %v; scores of shape %v want their shape without axis 1", l.scoresAt+1, labels, x.Shape)
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
	at, wrong := -1, int64(0)
	l.labels = l.labels[:0]
	if labels.DType == graph.Int64 {
		l.labels, at, wrong = appendLabels(l.labels, executor.Of[int64](labels), l)
	} else {
		l.labels, at, wrong = appendLabels(l.labels, executor.Of[int32](labels), l)
	}
	if at >= 0 {
		return c.Errorf("label %d of input %d is %d, wanted 0 to %d", at, l.scoresAt+1, wrong, l.c-1)
	}
	return nil
}

// appendLabels appends labels, -1 for ignored ones. It returns the place of the first that is out of range, or -1.
func appendLabels[L int32 | int64](dst []int32, src []L, l *lossLabels) (out []int32, at int, wrong int64) {
	for i, label := range src {
		switch v := int64(label); {
		case l.ignores && v == l.ignore:
			dst = append(dst, -1)
		case v < 0 || v >= int64(l.c):
			return dst, i, v
		default:
			dst = append(dst, int32(v))
		}
	}
	return dst, -1, 0
}

// space is the workspace of labels.
func (l *lossLabels) space(in [][]int) int {
	if l.scoresAt+1 >= len(in) || in[l.scoresAt+1] == nil {
		return 0
	}
	return executor.RoundUp(4 * elements(in[l.scoresAt+1]))
}

// send copies the labels to workspace on the device.
func (l *lossLabels) send(c *executor.Ctx) ([]byte, error) {
	to := c.Scratch(4 * len(l.labels))
	if len(to) == 0 {
		return to, nil
	}
	return to, l.d.Memory().CopyIn(to, executor.Memory(l.labels))
}
