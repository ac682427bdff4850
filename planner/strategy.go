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

// Policy is a strategy that decides for each stashed activation by itself: it reports whether the activation is kept,
// and all others are recomputed where that is possible, as in JAX's checkpoint policies. For example,
//
//	planner.Policy(func(a *planner.Activation) bool { return a.Node.Op == "MatMul" })
//
// keeps the outputs of matrix products and recomputes the rest.
type Policy func(a *Activation) (keep bool)

// Choose recomputes the activations that the policy does not keep. Those that cannot be recomputed are kept.
func (p Policy) Choose(_ context.Context, c *Chooser) error {
	var list []graph.ValueID
	for _, a := range c.Activations() {
		if !p(&a) {
			list = append(list, a.Value)
		}
	}
	_, err := c.Recompute(list...)
	return err
}

// Activation is a stashed activation. Views of one tensor are one activation, that tensor.
type Activation struct {
	Value graph.ValueID
	Name  string      // of the value
	Node  *graph.Node // its producer, in the forward half
	Bytes int64       // 0 where a symbol is unbound
}

// Chooser is the interface of a Strategy to the plan being made.
type Chooser struct {
	maker *maker
	made  *choice
	own   *demands // of Recompute; nil before its first call
}

// Activations lists the stashed activations, in the order of their production, without those that Options.Keep
// names.
func (c *Chooser) Activations() []Activation {
	d, m := c.demands(), c.maker
	var list []Activation
	for _, id := range m.analysis.Order {
		n := m.analysis.Graph.Nodes[id]
		if d.kept != nil && d.kept[id] {
			continue
		}
		for _, v := range n.Outputs {
			if v == graph.NoValue || d.root[v] != v || d.unstashed(v) != "" {
				continue
			}
			a := Activation{Value: v, Name: m.analysis.Graph.ValueName(v), Node: n}
			if m.sizes != nil {
				a.Bytes = m.sizes.Bytes[v]
			}
			list = append(list, a)
		}
	}
	return list
}

// Recompute marks stashed activations for recomputation, beside those that are marked already. It returns the
// rejections of those that cannot be recomputed, such as outputs of random operators without a recorded state; these
// are kept. A value that is no stashed activation, or that Options.Keep names, is an error that wraps ErrDemand.
func (c *Chooser) Recompute(values ...graph.ValueID) ([]recompute.Rejection, error) {
	d, m := c.demands(), c.maker
	var rejected []recompute.Rejection
	for _, v := range values {
		if err := d.markable(v); err != nil {
			return nil, err
		}
		if r := d.force(d.root[v], c.name(), false); r != nil {
			rejected = append(rejected, *r)
		}
	}
	given := m.evaluator.Forced
	m.evaluator.Forced = append(slices.Clone(given), d.forced...)
	defer func() { m.evaluator.Forced = given }()
	t, err := m.evaluator.Candidates(nil)
	if err != nil {
		return nil, err
	}
	m.latest = tried{}
	c.made = &choice{sel: selectionOf(m.analysis, t.Placements), trial: t, solver: c.name()}
	return rejected, nil
}

// Peak is the most live bytes of the graph with the marked activations recomputed; 0 where a symbol is unbound.
func (c *Chooser) Peak() int64 {
	switch {
	case c.maker.sizes == nil:
		return 0
	case c.made == nil:
		return c.maker.base.Peak.Bytes
	}
	return c.made.trial.Timeline.Peak.Bytes
}

// name is how records and messages name the strategy.
func (c *Chooser) name() string { return "policy" }

// demands are those of Recompute, which know those of the options.
func (c *Chooser) demands() *demands {
	if c.own == nil {
		c.own = c.maker.newDemands(c.maker.analysis)
		if given := c.maker.demands; given != nil {
			c.own.kept, c.own.why = given.kept, given.why
		}
	}
	return c.own
}
