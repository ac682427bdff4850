package budget

import (
	"context"
	"errors"
	"slices"

	"memopt/planner/remat"
)

// halves searches a graph twice for each budget: first recomputing forward nodes alone, then all nodes,
// starting from the first result. Recomputing forward nodes helps most graphs most, and a search among two
// or three times as many tasks takes longer to find that. Each search does half of the work.
type halves struct {
	forward *half // nil if no backward node may be recomputed
	all     *half
	shut    int64 // the highest budget at which constructions among forward nodes have failed
}

// half is a search and its graph.
type half struct {
	*remat.Search
	graph *remat.Graph
}

func (b *budgeter) newSearch() *halves {
	g := b.tasks.graph
	h := &halves{all: &half{remat.NewSearch(g, b.opts.Seed), g}}
	if g := b.tasks.forwardOnly(); g != nil {
		h.forward = &half{remat.NewSearch(g, b.opts.Seed), g}
	}
	return h
}

// forwardOnly is the graph without recomputation of backward tasks; nil where that makes no difference.
func (t *tasks) forwardOnly() *remat.Graph {
	g := *t.graph
	g.Tasks = slices.Clone(g.Tasks)
	differs := false
	for i, id := range t.a.Order {
		if t.a.Backward[id] && !g.Tasks[i].Once {
			g.Tasks[i].Once, differs = true, true
		}
	}
	if !differs {
		return nil
	}
	return &g
}

// chain adds an answer found by dynamic programming over layers, one that recomputes forward tasks, if
// there is one.
func (h *halves) chain(ctx context.Context, budget int64) error {
	for _, half := range []*half{h.forward, h.all} {
		if half == nil {
			continue
		}
		if extras := half.graph.ChainExtras(ctx, budget); extras != nil {
			return half.Add(extras, "chain")
		}
	}
	return nil
}

// begin adds runs that were found by other means to what is known, unless a search could not make them.
func (h *halves) begin(extras []remat.Extra, method string) error {
	for _, half := range []*half{h.forward, h.all} {
		if half == nil || slices.ContainsFunc(extras, func(x remat.Extra) bool {
			return half.graph.Tasks[x.Task].Once
		}) {
			continue
		}
		if err := half.Add(extras, method); err != nil {
			return err
		}
	}
	return nil
}

// Fit is remat.Search.Fit.
func (h *halves) Fit(ctx context.Context, budget, work int64) (*remat.Answer, error) {
	switch {
	case h.forward == nil:
		return h.all.Fit(ctx, budget, work)
	case work == 0:
		return h.first(ctx, budget)
	}
	if _, err := h.took(h.forward.Fit(ctx, budget, work/2)); err != nil {
		return nil, err
	}
	return h.all.Fit(ctx, budget, work/2)
}

// first returns the first answer found. Some constructions among forward nodes tell whether a budget is in
// reach of these: steps towards one that is not take ten times as long, and are made among all nodes alone.
func (h *halves) first(ctx context.Context, budget int64) (*remat.Answer, error) {
	if budget > h.shut {
		found, err := h.took(h.forward.Construct(ctx, budget))
		if err != nil {
			return nil, err
		}
		if !found {
			h.shut = budget
		}
	}
	return h.all.Fit(ctx, budget, 0)
}

// took adds an answer among forward nodes, if there is one, to those among all nodes.
func (h *halves) took(a *remat.Answer, err error) (found bool, _ error) {
	switch {
	case errors.Is(err, remat.ErrInfeasible):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, h.all.Add(a.Extras, a.Method)
}

// Lowest is remat.Search.Lowest. The forward nodes get all of the work, and all nodes half as much again:
// the lowest peak depends more on the search than the cost of a plan does.
func (h *halves) Lowest(ctx context.Context, work int64) (*remat.Answer, error) {
	if h.forward == nil {
		return h.all.Lowest(ctx, work)
	}
	if _, err := h.took(h.forward.Lowest(ctx, work)); err != nil {
		return nil, err
	}
	return h.all.Lowest(ctx, work/2)
}
