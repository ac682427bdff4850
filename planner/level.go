package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/planner/arena"
	"memopt/recompute"
)

// Level is the strategy of ONNX Runtime's ORTMODULE_MEMORY_OPT_LEVEL.
type Level int

const (
	// UserSpecified recomputes the clusters of the configuration.
	UserSpecified Level = 0
	// Layerwise recomputes every candidate of strategy 1, layer by layer.
	Layerwise Level = 1
	// LayerwiseCompromise adds strategy 2 where strategy 1 does not apply.
	LayerwiseCompromise Level = 2
)

// Valid reports whether the level is one of the three.
func (l Level) Valid() bool { return l >= UserSpecified && l <= LayerwiseCompromise }

// String returns ONNX Runtime's name of the level.
func (l Level) String() string {
	switch l {
	case UserSpecified:
		return "USER_SPECIFIED"
	case Layerwise:
		return "TRANSFORMER_LAYERWISE_RECOMPUTE"
	case LayerwiseCompromise:
		return "TRANSFORMER_LAYERWISE_RECOMPUTE_WITH_COMPROMISE"
	}
	return fmt.Sprintf("level %d", int(l))
}

// DefaultProbe is the probe that ONNX Runtime uses with the level.
func (l Level) DefaultProbe() recompute.Probe {
	return recompute.Probe{Level: 1, Layers: l != UserSpecified}
}

func (l Level) enables() bool          { return l != UserSpecified }
func (l Level) probe() recompute.Probe { return l.DefaultProbe() }
func (Level) fixedOrder() graph.Order  { return nil }

func (l Level) choose(ctx context.Context, m *maker) (*choice, error) {
	if !l.Valid() {
		return nil, fmt.Errorf("level %d: wanted 0, 1 or 2", int(l))
	}
	if l == UserSpecified {
		return Config(nil).choose(ctx, m)
	}
	best, err := m.levelSelection(ctx, l)
	if err != nil {
		return nil, err
	}
	t, err := m.try(best.sel)
	if err != nil {
		return nil, err
	}
	c := &choice{sel: best.sel, trial: t, layout: best.layout, solver: l.String()}
	if best.why != "" {
		c.warnings = []string{best.why}
	}
	return c, nil
}

// selectLevel selects every entry's strategy-1 candidate and, with compromise, the strategy-2
// candidates of entries that have no other. Candidates that cannot be cloned, and those that
// recompute kept nodes, stay off.
func (m *maker) selectLevel(compromise bool) *selection {
	a := m.analysis
	s, taken := newSelection(), make([]bool, len(a.Graph.Nodes))
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Strategy == recompute.Compromise && !compromise || a.Uncloneable(i) != "" || !m.demands.mayRun(c) {
			continue
		}
		if !taken[c.Entry] {
			taken[c.Entry] = true
			s.requested[c.Cluster] = -1
			s.add(a, i)
		}
	}
	return s
}

// checkpointSpacings are the distances between checkpoints that are tried if recomputing everything
// does not lower the peak.
var checkpointSpacings = []int{2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128}

// In graphs of manyNodes and more, each trial takes seconds: fewer distances are tried then, over
// the same range.
const manyNodes = 500_000

var fewSpacings = []int{8, 32, 128}

// spacings are the distances to try in a graph of so many nodes.
func spacings(nodes int) []int {
	if nodes >= manyNodes {
		return fewSpacings
	}
	return checkpointSpacings
}

// checkpointed yields the candidates of level 1 without every n-th, for the distances that huge
// graphs are tried with.
func (m *maker) checkpointed(yield func([]int) bool) {
	full := m.selectLevel(false)
	for _, every := range fewSpacings {
		if !yield(full.withCheckpoints(m.analysis, every).chosen) {
			return
		}
	}
}

// levelChoice is a possible selection of a level, with its memory.
type levelChoice struct {
	sel    *selection
	peak   int64
	saved  int64
	why    string        // why it is not all candidates
	layout *arena.Layout // nil before packing
}

// levelSelection returns the selection of a level other than UserSpecified: all candidates, with
// some kept as checkpoints if that alone lowers the peak, and an empty selection if that would take
// more than the unchanged graph. Level 2 considers more selections than level 1; its peak is no
// higher, and it frees no less. Without sizes, and in ORTModule, it is all candidates.
func (m *maker) levelSelection(ctx context.Context, l Level) (*levelChoice, error) {
	compromise := l == LayerwiseCompromise
	if m.sizes == nil || m.opts.ByORTModule() {
		return &levelChoice{sel: m.selectLevel(compromise)}, nil
	}
	w := &weigher{maker: m, ctx: ctx}
	best, err := w.bestOf(m.selectLevel(false), nil)
	if err != nil || !compromise {
		return best, err
	}
	floor := best
	both := m.selectLevel(true)
	if best, err = w.bestOf(both, floor); err != nil {
		return nil, err
	}
	if best == floor && floor.why == "" && len(both.chosen) > len(floor.sel.chosen) {
		best.why = "strategy 2 would raise the peak and is not used: this is the plan of level 1"
	}
	return best, nil
}

// weigher compares selections.
type weigher struct {
	*maker
	ctx       context.Context
	baseArena *arena.Layout // of the unchanged graph; nil before its first use
}

// bestOf returns the selection, or, if it does not lower the peak by itself, the one with the
// lowest peak among its variants with checkpoints. Selections that take more than the unchanged
// graph do not count. With a floor, those that peak as high as it or free less do not count either,
// and the floor is returned if no selection is left; without one, an empty selection.
func (w *weigher) bestOf(full *selection, floor *levelChoice) (*levelChoice, error) {
	all, err := w.weigh(full, "")
	if err != nil || len(full.chosen) == 0 {
		return all, err
	}
	counts := func(c *levelChoice) (bool, error) {
		if floor != nil && (c.peak > floor.peak || c.peak == floor.peak && c != all ||
			c.saved < floor.saved) {
			return false, nil
		}
		return w.withinBase(c)
	}
	ok, err := counts(all)
	if err != nil || ok && all.peak < w.base.Peak.Bytes {
		return all, err
	}
	choices := []*levelChoice{all}
	for _, every := range spacings(len(w.analysis.Graph.Nodes)) {
		why := fmt.Sprintf("recomputing everything would not lower the peak, because no value is left to start "+
			"from: one value in %d is kept as a checkpoint (a plan file records which; a "+
			"configuration cannot)", every)
		c, err := w.weigh(full.withCheckpoints(w.analysis, every), why)
		if err != nil {
			return nil, err
		}
		choices = append(choices, c)
	}
	slices.SortStableFunc(choices, func(x, y *levelChoice) int { return cmp.Compare(x.peak, y.peak) })
	for _, c := range choices {
		if ok, err := counts(c); ok || err != nil {
			return c, err
		}
	}
	if floor != nil {
		return floor, nil
	}
	return w.weigh(newSelection(),
		"no node is recomputed: recomputation would take more memory than the graph as it is")
}

// weigh evaluates a selection.
func (w *weigher) weigh(sel *selection, why string) (*levelChoice, error) {
	e, err := w.try(sel)
	if err != nil {
		return nil, err
	}
	return &levelChoice{sel: sel, peak: e.Peak, saved: w.savedBytes(sel), why: why}, nil
}

// withinBase reports whether a selection takes no more than the unchanged graph: neither live bytes
// at the peak nor, if layouts are wanted, bytes of the arena.
func (w *weigher) withinBase(c *levelChoice) (bool, error) {
	if c.peak > w.base.Peak.Bytes || w.opts.SkipLayout {
		return c.peak <= w.base.Peak.Bytes, nil
	}
	if c.layout == nil {
		e, err := w.try(c.sel)
		if err != nil {
			return false, err
		}
		c.layout = e.Layout(w.ctx)
	}
	if c.layout.Bytes <= w.base.Peak.Bytes {
		return true, nil // the arena of the unchanged graph holds these bytes at once
	}
	if w.baseArena == nil {
		w.baseArena = arena.NewLayout(w.ctx, w.base, w.evaluator.AsIs().Bytes)
	}
	return c.layout.Bytes <= w.baseArena.Bytes, nil
}

// savedBytes sums the stashes that the selected candidates free.
func (w *weigher) savedBytes(sel *selection) int64 {
	a := w.analysis
	var total int64
	for _, i := range sel.chosen {
		total += freed(&a.Candidates[i], w.sizes.Bytes)
	}
	return total
}

func freed(c *recompute.Candidate, bytes []int64) int64 {
	var total int64
	for _, v := range c.Stashed {
		total += max(bytes[v], 0) / c.Ratio.Den * c.Ratio.Num
	}
	return total
}
