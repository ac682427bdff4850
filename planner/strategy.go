package planner

import (
	"context"
	"slices"

	"memopt/graph"
	"memopt/planner/arena"
	"memopt/planner/budget"
	"memopt/planner/place"
	"memopt/recompute"
)

// Strategy chooses the recomputed values of a plan. Level, Config, Budget, *PlanFile and Policy are strategies; a
// program may bring its own. It is a value for any number of plans; making a plan does not change it.
type Strategy interface {
	// Choose marks stashed activations by c.Recompute. A strategy that marks no activation leaves the graph
	// unchanged. An error ends the making of the plan, which returns it unchanged.
	Choose(ctx context.Context, c *Chooser) error
}

// The strategies of this package say more of themselves than others do.
type (
	// optional strategies may ask for no recomputation at all.
	optional interface{ enables() bool }
	// probing strategies say how far candidates are searched where Options.Probe does not.
	probing interface{ probe() recompute.Probe }
	// ordered strategies can be followed in one order alone, unless it is nil.
	ordered interface{ fixedOrder() graph.Order }
)

func enables(s Strategy) bool {
	o, ok := s.(optional)
	return !ok || o.enables()
}

func probeOf(s Strategy) recompute.Probe {
	if p, ok := s.(probing); ok {
		return p.probe()
	}
	return UserSpecified.DefaultProbe()
}

func fixedOrder(s Strategy) graph.Order {
	if o, ok := s.(ordered); ok {
		return o.fixedOrder()
	}
	return nil
}

// choice is the result of a strategy.
type choice struct {
	sel      *selection
	trial    *place.Trial   // of the placements; the last that was made on the evaluator
	layout   *arena.Layout  // of the trial; nil before packing
	solver   string         // name of the solver, as in records
	stopped  bool           // a time limit ended the search
	answer   *budget.Answer // to a budget that is not one of clusters; else nil
	warnings []string
}

// take makes a choice of this package's strategies the chooser's.
func (c *Chooser) take(made *choice, err error) error {
	c.made = made
	return err
}

// Choose makes the choice of the level.
func (l Level) Choose(ctx context.Context, c *Chooser) error { return c.take(l.choose(ctx, c.maker)) }

// Choose selects the clusters that the configuration lists.
func (x Config) Choose(ctx context.Context, c *Chooser) error { return c.take(x.choose(ctx, c.maker)) }

// Choose searches for the cheapest plan within the budget. The error is an *InfeasibleError if no plan was found.
func (b Budget) Choose(ctx context.Context, c *Chooser) error { return c.take(b.choose(ctx, c.maker)) }

// Choose takes the placements of the file.
func (f *PlanFile) Choose(ctx context.Context, c *Chooser) error {
	return c.take(f.choose(ctx, c.maker))
}

// selection is the recomputed part of an analysis: at most one candidate per entry.
type selection struct {
	chosen    []int       // candidates, in order of execution
	requested map[int]int // cluster → count asked for
	applied   map[int]int // cluster → candidates selected
	kept      []bool      // by node: the entry is a checkpoint; nil without checkpoints
}

func newSelection() *selection {
	return &selection{requested: map[int]int{}, applied: map[int]int{}}
}

// add selects a candidate of an entry without one.
func (s *selection) add(a *recompute.Analysis, candidate int) {
	s.chosen = append(s.chosen, candidate)
	s.applied[a.Candidates[candidate].Cluster]++
}

// withCheckpoints returns the selection without every n-th entry in order of execution: their
// values are kept, and recomputation starts from them.
func (s *selection) withCheckpoints(a *recompute.Analysis, every int) *selection {
	out := newSelection()
	out.kept = make([]bool, len(a.Graph.Nodes))
	for i, c := range s.chosen {
		out.requested[a.Candidates[c].Cluster] = -1
		if i%every == every-1 {
			out.kept[a.Candidates[c].Entry] = true
		} else {
			out.add(a, c)
		}
	}
	return out
}

// selectionOf returns the candidates that placements stand for, however these were chosen.
func selectionOf(a *recompute.Analysis, placements []recompute.Placement) *selection {
	sel := newSelection()
	again := make([]bool, len(a.Graph.Nodes))
	for _, pl := range placements {
		def := a.Graph.Values[pl.Value].Def
		if cs := a.OfEntry(def); len(cs) > 0 && !again[def] {
			again[def] = true
			sel.requested[a.Candidates[cs[0]].Cluster] = -1
			sel.add(a, cs[0])
		}
	}
	slices.Sort(sel.chosen)
	return sel
}
