package op

import (
	"slices"

	"memopt/graph"
)

// Pieces is a node whose dims are numbers, as the rules see it that say which operands are runs of
// consecutive elements of another one (Info.Cuts, Info.Joins), and into which parts its work falls
// (Info.Factors).
type Pieces struct {
	Graph *graph.Graph
	Node  *graph.Node
	// Version is the node's schema version, which only Factors asks for.
	Version int
	// Dims returns the dims of a value, nil where they are not known.
	Dims func(graph.ValueID) []int64
}

// notPart stands for an operand that is no run of consecutive elements.
const notPart = -1

// maxCutAxes is more axes than a Slice has.
const maxCutAxes = 64

// splitCuts: parts along an axis lie one behind the other if nothing comes before it.
func splitCuts(p *Pieces) []int64 { return p.along(0, p.Node.Input(0), p.Node.Outputs) }

// concatJoins: as splitCuts. The attribute has had no default since version 4.
func concatJoins(p *Pieces) []int64 {
	if p.Node.Attr("axis") == nil {
		return nil
	}
	return p.along(0, p.Node.Output(0), p.Node.Inputs)
}

// concatTrainingJoins: the axis is 0 by default.
func concatTrainingJoins(p *Pieces) []int64 { return p.along(0, p.Node.Output(0), p.Node.Inputs) }

// along returns where the parts of a whole along the axis of the attribute begin. Behind a part
// that is left out, or of unknown length, nothing is known.
func (p *Pieces) along(preset int64, whole graph.ValueID, parts []graph.ValueID) []int64 {
	dims := p.dims(whole)
	axis := p.Node.Int("axis", preset)
	if axis < 0 {
		axis += int64(len(dims))
	}
	if axis < 0 || axis >= int64(len(dims)) || elements(dims[:axis]) != 1 {
		return nil
	}
	inner, at := elements(dims[axis+1:]), int64(0)
	starts := slices.Repeat([]int64{notPart}, len(parts))
	for i, v := range parts {
		d := p.dims(v)
		if len(d) != len(dims) || d[axis] > dims[axis]-at {
			break
		}
		starts[i] = at * inner
		at += d[axis]
	}
	return starts
}

func (p *Pieces) dims(v graph.ValueID) []int64 {
	if v == graph.NoValue {
		return nil
	}
	return p.Dims(v)
}

// sliceCuts: a part is one run if, from the outermost axis on, it takes one element of each up to
// some axis, a range of that, and all of those behind.
func sliceCuts(p *Pieces) []int64 {
	x, y := p.dims(p.Node.Input(0)), p.dims(p.Node.Output(0))
	if len(x) == 0 || len(y) != len(x) {
		return nil
	}
	first, ok := p.firsts(x, y)
	if !ok {
		return nil
	}
	at, one := int64(0), true
	for i, d := range x {
		if !one && y[i] != d {
			return nil
		}
		one = one && y[i] == 1
		at = at*d + first[i]
	}
	return []int64{at}
}

// firsts returns the first index that a Slice takes of every axis; ok is false where the file does
// not say it, or where neighbours in the result are none in the input.
func (p *Pieces) firsts(x, y []int64) (first []int64, ok bool) {
	starts, axes, steps, ok := p.bounds()
	if !ok || axes != nil && len(axes) != len(starts) || steps != nil && len(steps) != len(starts) {
		return nil, false
	}
	first = make([]int64, len(x))
	for i, start := range starts {
		axis := int64(i)
		if axes != nil {
			axis = axes[i]
		}
		if axis < 0 {
			axis += int64(len(x))
		}
		if axis < 0 || axis >= int64(len(x)) || steps != nil && steps[i] != 1 {
			return nil, false
		}
		if start < 0 {
			start += x[axis]
		}
		start = min(max(start, 0), x[axis])
		if y[axis] > x[axis]-start {
			return nil, false
		}
		first[axis] = start
	}
	return first, true
}

// bounds returns the starts, axes and steps of a Slice, the last two nil where they are left out.
func (p *Pieces) bounds() (starts, axes, steps []int64, ok bool) {
	n := p.Node
	if len(n.Inputs) == 1 { // before version 10
		return n.IntList("starts", nil), n.IntList("axes", nil), nil, true
	}
	lists := [3][]int64{}
	for i, slot := range [...]int{1, 3, 4} {
		v := n.Input(slot)
		if v == graph.NoValue {
			continue
		}
		data := Contents(p.Graph, v)
		if data == nil {
			return nil, nil, nil, false
		}
		if count, err := data.Elements(); err != nil || count > maxCutAxes {
			return nil, nil, nil, false
		}
		list, err := data.Int64s()
		if err != nil {
			return nil, nil, nil, false
		}
		lists[i] = list
	}
	return lists[0], lists[1], lists[2], true
}

// elements multiplies dims of a value whose size fits int64.
func elements(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}
