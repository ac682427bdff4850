package budget

import (
	"context"
	"errors"
	"slices"

	"memopt/planner/remat"
)

// halves searches a graph twice for each budget: first with forward nodes alone running again, then
// with all of them, which goes on from what the first has found. Running a forward node again is
// what helps most graphs most, and a search among twice or three times as many tasks takes longer
// to find that. Each does half of the work.
type halves struct {
	forward *half // nil where no backward node may run again
	all     *half
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

// forwardOnly is the graph in which backward tasks do not run again; nil where that makes no
// difference.
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

// chain takes an answer by dynamic programming over layers into what is known: one in which forward
// tasks run again, if there is one.
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

// Fit is remat.Search.Fit.
func (h *halves) Fit(ctx context.Context, budget, work int64) (*remat.Answer, error) {
	if h.forward == nil {
		return h.all.Fit(ctx, budget, work)
	}
	a, err := h.forward.Fit(ctx, budget, work/2)
	switch {
	case errors.Is(err, remat.ErrInfeasible):
	case err != nil:
		return nil, err
	default:
		if err := h.all.Add(a.Extras, a.Method); err != nil {
			return nil, err
		}
	}
	return h.all.Fit(ctx, budget, work/2)
}

// Lowest is remat.Search.Lowest. The forward nodes get all of the work, and all nodes half as much
// again: how low a search comes depends on it more than what a plan costs.
func (h *halves) Lowest(ctx context.Context, work int64) (*remat.Answer, error) {
	if h.forward == nil {
		return h.all.Lowest(ctx, work)
	}
	a, err := h.forward.Lowest(ctx, work)
	if err == nil {
		err = h.all.Add(a.Extras, a.Method)
	}
	if err != nil {
		return nil, err
	}
	return h.all.Lowest(ctx, work/2)
}
