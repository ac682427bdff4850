package planner

import (
	"context"
	"slices"

	"memopt/graph"
	"memopt/recompute"
)

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
