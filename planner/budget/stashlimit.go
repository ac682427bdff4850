package budget

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/planner/remat"
)

// ErrStashLimit means that a stash limit applies to no stashed activation.
var ErrStashLimit = errors.New("stash limit")

// stashLimit is a StashLimit with the values of the search that it applies to.
type stashLimit struct {
	StashLimit
	// in says by value of the search's graph whether it counts: a forward node of that name makes
	// it, and backward ones read it.
	in []bool
}

// stashLimits resolves the globs of the limits. A glob that matches no stashing node is an error.
func (b *budgeter) stashLimits() ([]stashLimit, error) {
	g, tk := b.p.Evaluator.Analysis.Graph, b.tasks
	var out []stashLimit
	for _, r := range b.opts.StashLimits {
		limit := stashLimit{StashLimit: r, in: make([]bool, len(tk.graph.Values))}
		any := false
		for _, st := range b.p.Evaluator.Analysis.Stashed {
			root := tk.root[st.Value]
			if root == graph.NoValue || !graph.MatchGlob(r.Glob, g.NodeLabel(g.Values[root].Def)) {
				continue
			}
			limit.in[tk.value[root]], any = true, true
		}
		if !any {
			return nil, fmt.Errorf("%w %q: no node of that name makes a stashed activation",
				ErrStashLimit, r.Glob)
		}
		out = append(out, limit)
	}
	return out, nil
}

// stashed is the bytes of the limited values whose first run is still needed when the backward half
// begins.
func (b *budgeter) stashed(r *stashLimit, extras []remat.Extra) int64 {
	total := int64(0)
	for v, held := range b.held(extras) {
		if held && r.in[v] {
			total += b.tasks.graph.Values[v].Size
		}
	}
	return total
}

// held marks the values that the first run of their task has made and that a backward run reads.
func (b *budgeter) held(extras []remat.Extra) []bool {
	g := b.tasks.graph
	held := make([]bool, len(g.Values))
	again := make([]bool, len(g.Tasks))
	maker := b.makers()
	for _, r := range g.Runs(extras) {
		if !r.Extra && r.Task < g.From {
			continue
		}
		for _, u := range g.Tasks[r.Task].Uses {
			held[u] = held[u] || !again[maker[u]] && maker[u] < g.From
		}
		again[r.Task] = again[r.Task] || r.Extra
	}
	for v := range held {
		held[v] = held[v] || g.Values[v].Keep && maker[v] < g.From
	}
	return held
}

// makers is the task of every value.
func (b *budgeter) makers() []int32 {
	g := b.tasks.graph
	maker := make([]int32, len(g.Values))
	for t := range g.Tasks {
		for _, v := range g.Tasks[t].Makes {
			maker[v] = int32(t)
		}
	}
	return maker
}

// limitTries is how often a limit is tightened until the remaining bytes are within it.
const limitTries = 12

// applyLimits finds extra runs that keep every stash limit: those that a minimum
// cut at the end of the forward half suggests where only the limited bytes count.
func (b *budgeter) applyLimits() error {
	limits, err := b.stashLimits()
	if err != nil {
		return err
	}
	var all []remat.Extra
	for i := range limits {
		r := &limits[i]
		capacity, low := r.Bytes, int64(math.MaxInt64)
		for try := 0; ; try++ {
			extras := b.cut(r, max(capacity, 0))
			left := b.stashed(r, extras)
			low = min(low, left)
			if left <= r.Bytes {
				all = append(all, extras...)
				break
			}
			if try == limitTries || capacity <= 0 {
				return &InfeasibleError{Budget: r.Bytes, LowestArena: low, LowestLive: low,
					Object: "plan for the nodes " + r.Glob}
			}
			capacity -= left - r.Bytes
		}
	}
	b.forced = remat.SortExtras(all)
	b.limits = limits
	return nil
}

// cut asks for the cheapest extra runs that leave the limited values at most some bytes over the
// end of the forward half, where it inserts a task without needs of its own. If no runs fit, it
// returns those that leave the least.
func (b *budgeter) cut(r *stashLimit, bytes int64) []remat.Extra {
	g := *b.tasks.graph
	g.Values = slices.Clone(g.Values)
	g.Tasks = slices.Insert(slices.Clone(g.Tasks), int(g.From), remat.Task{Once: true})
	for v := range g.Values {
		if !r.in[v] {
			g.Values[v].Size = 0
		}
	}
	for t := range g.Tasks {
		g.Tasks[t].Workspace, g.Tasks[t].InPlace = 0, nil
	}
	tasks, _ := g.CutAt(g.From, bytes)
	extras := g.FromCut(tasks, g.From)
	for i := range extras {
		extras[i].Before--
	}
	return b.complete(extras, r)
}

// complete adds runs so that no recomputed node of the backward half, and no reader behind it,
// reads a limited value from its first run if it is recomputed anyway: it moves the second run
// before the earliest reader.
func (b *budgeter) complete(extras []remat.Extra, r *stashLimit) []remat.Extra {
	g, maker := b.tasks.graph, b.makers()
	dropped := make([]bool, len(g.Tasks))
	for _, x := range extras {
		dropped[x.Task] = true
	}
	for range len(g.Tasks) {
		again := make([]bool, len(g.Tasks))
		before := int32(0)
		var more []remat.Extra
		rest := extras
		for _, run := range g.Runs(extras) {
			if run.Extra {
				before, rest = rest[0].Before, rest[1:]
			} else {
				before = run.Task
			}
			if !run.Extra && run.Task < g.From {
				continue
			}
			for _, u := range g.Tasks[run.Task].Uses {
				if m := maker[u]; r.in[u] && dropped[m] && !again[m] && m < before {
					more = append(more, remat.Extra{Task: m, Before: before})
					again[m] = true
				}
			}
			again[run.Task] = again[run.Task] || run.Extra
		}
		if len(more) == 0 {
			break
		}
		extras = remat.SortExtras(append(extras, more...))
	}
	return extras
}

// withForced adds forced runs, and those that the stash limits need, to an answer of the search.
func (b *budgeter) withForced(extras []remat.Extra) []remat.Extra {
	if fixed := b.tasks.graph.Fixed; len(fixed) > 0 {
		extras = remat.SortExtras(append(slices.Clone(extras), fixed...))
	}
	if len(b.forced) == 0 {
		return extras
	}
	extras = remat.SortExtras(append(slices.Clone(extras), b.forced...))
	for i := range b.limits {
		extras = b.complete(extras, &b.limits[i])
	}
	return extras
}
