package torch

import (
	"memopt/graph"
	"memopt/graph/pattern"
)

// ratio is the share that a Dropout drops, known where it is a constant or an attribute.
func (k *kernel) ratio() (float64, bool) {
	if a := k.n.Attr("ratio"); a != nil {
		return float64(k.n.Float("ratio", 0.5)), true
	}
	if v := k.n.Input(1); v != graph.NoValue {
		return pattern.Number(k.g, v)
	}
	return 0.5, true
}

// training reports whether a Dropout drops: its third input says so, and since it can be any value, so
// does one that is not known.
func (k *kernel) training() bool {
	v := k.n.Input(2)
	if v == graph.NoValue {
		return len(k.n.Inputs) < 2 && k.n.Attr("ratio") != nil
	}
	elems, ok := k.types.Contents(v)
	if !ok || len(elems) != 1 {
		return true
	}
	c, known := elems[0].Const()
	return !known || c != 0
}
