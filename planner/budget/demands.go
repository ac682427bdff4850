package budget

import (
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/planner/remat"
	"memopt/recompute"
)

// Forced is a node that must be recomputed before the first backward node that needs its output.
type Forced struct {
	Node graph.NodeID
	// Asked is the text that names it, for the error if it cannot be recomputed; "" means that it
	// is one of many, and is left out then.
	Asked string
}

// Left is a node of Problem.Forced that was left out.
type Left struct {
	Node graph.NodeID
	Why  string
}

// demand restricts the graph of the search to answers that obey the demands: kept nodes do not run
// again, and forced nodes do. Bounds then refer to such plans; a forced run costs in them
// only the one time that bound adds.
func (b *budgeter) demand() error {
	t := b.tasks
	for id, why := range b.p.Kept {
		if why != "" {
			t.whyNot[id] = why
			place := b.p.Evaluator.Pos[id]
			t.graph.Tasks[place].Once, t.loose.Tasks[place].Once = true, true
		}
	}
	first := t.firstReaders()
	forced := slices.Clone(b.p.Forced)
	slices.SortFunc(forced, func(x, y Forced) int { return int(b.p.Evaluator.Pos[y.Node] - b.p.Evaluator.Pos[x.Node]) })
	for _, f := range forced {
		x, why := t.firstNeed(b.p.Evaluator.Pos[f.Node], first)
		if why != "" && f.Asked != "" {
			return fmt.Errorf("%w: %s: node %q cannot run again in a plan to a budget: %s", recompute.ErrDemand,
				f.Asked, t.a.Graph.NodeLabel(f.Node), why)
		}
		if why != "" {
			b.left = append(b.left, Left{f.Node, why})
			continue
		}
		for _, u := range t.graph.Tasks[x.Task].Uses {
			first[u] = min(first[u], x.Before)
		}
		t.graph.Fixed = append(t.graph.Fixed, x)
		b.fixedCost += t.graph.Tasks[x.Task].Cost
		t.loose.Tasks[x.Task].Cost = 0
	}
	return nil
}

// firstReaders is, by value, the first place of the backward half whose task uses it.
func (t *tasks) firstReaders() []int32 {
	first := make([]int32, len(t.graph.Values))
	for v := range first {
		first[v] = math.MaxInt32
	}
	for place := len(t.graph.Tasks) - 1; place >= int(t.graph.From); place-- {
		for _, u := range t.graph.Tasks[place].Uses {
			first[u] = int32(place)
		}
	}
	return first
}

// firstNeed is the run of a task before the first reader of its output, or why there is no such
// run.
func (t *tasks) firstNeed(task int32, first []int32) (x remat.Extra, why string) {
	id := t.a.Order[task]
	if why := t.whyNot[id]; why != "" {
		return x, why
	}
	x = remat.Extra{Task: task, Before: math.MaxInt32}
	for _, v := range t.graph.Tasks[task].Makes {
		x.Before = min(x.Before, first[v])
	}
	switch until := t.graph.Tasks[task].Until; {
	case t.graph.Tasks[task].Once:
		return x, "it is a view of another node's output"
	case x.Before == math.MaxInt32:
		return x, "no backward node reads its outputs"
	case until > 0 && until < x.Before:
		return x, "an operand in the memory of a state is overwritten before a backward node needs it"
	}
	return x, ""
}
