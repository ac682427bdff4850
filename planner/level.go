package planner

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/planner/arena"
	"memopt/recompute"
)

// checkpointSpacings are the distances at which checkpoints are tried where recomputing
// everything does not lower the peak.
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

// levelChoice is a selection that a level may mean, with what it comes to.
type levelChoice struct {
	sel    *selection
	peak   int64
	saved  int64
	why    string        // why it is not simply all candidates
	layout *arena.Layout // nil: not packed yet
}

// levelSelection returns the selection that the plan's level means: all candidates, of which some
// are kept as checkpoints where nothing else lowers the peak, and none where that would take more
// than the graph as it is. Level 2 looks among more selections than level 1 and neither peaks
// higher nor frees less. Without sizes it is all candidates.
func (p *Plan) levelSelection() (*selection, error) {
	compromise := p.Options.Level == LayerwiseCompromise
	if p.Sizes == nil {
		return selectLevel(p.Analysis, compromise), nil
	}
	best, err := p.bestOf(selectLevel(p.Analysis, false), nil)
	if err != nil {
		return nil, err
	}
	if compromise {
		floor := best
		both := selectLevel(p.Analysis, true)
		if best, err = p.bestOf(both, floor); err != nil {
			return nil, err
		}
		if best == floor && floor.why == "" && len(both.chosen) > len(floor.sel.chosen) {
			best.why = "strategy 2 would raise the peak and is left out: this is the plan of level 1"
		}
	}
	if best.why != "" {
		p.Warnings = append(p.Warnings, best.why)
	}
	p.packed = best.layout
	return best.sel, nil
}

// bestOf returns the selection, or that with the lowest peak among it with checkpoints where it
// does not lower the peak alone. What takes more than the graph as it is does not count. With a
// floor, what peaks as high or frees less than the floor does not count either, and the floor is
// returned where nothing does; without one, a selection of nothing.
func (p *Plan) bestOf(full *selection, floor *levelChoice) (*levelChoice, error) {
	all, err := p.weigh(full, "")
	if err != nil || len(full.chosen) == 0 {
		return all, err
	}
	counts := func(c *levelChoice) (bool, error) {
		if floor != nil && (c.peak > floor.peak || c.peak == floor.peak && c != all || c.saved < floor.saved) {
			return false, nil
		}
		return p.withinBase(c)
	}
	ok, err := counts(all)
	if err != nil || ok && all.peak < p.Base.Peak.Bytes {
		return all, err
	}
	choices := []*levelChoice{all}
	for _, every := range spacings(len(p.Analysis.Graph.Nodes)) {
		c, err := p.weigh(full.withCheckpoints(p.Analysis, every), fmt.Sprintf(
			"recomputing everything would not lower the peak, because nothing is left to start from: one value in %d is kept as a checkpoint (--save-plan records which; a configuration cannot)", every))
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
	return p.weigh(newSelection(), "nothing is recomputed: it would take more memory than the graph as it is")
}

// weigh evaluates a selection.
func (p *Plan) weigh(sel *selection, why string) (*levelChoice, error) {
	e, err := p.evaluate(sel)
	if err != nil {
		return nil, err
	}
	return &levelChoice{sel: sel, peak: e.Peak, saved: p.savedBytes(sel), why: why}, nil
}

// withinBase reports whether a selection takes no more than the graph as it is: neither live bytes
// at the peak nor, where layouts are wanted, bytes of the arena.
func (p *Plan) withinBase(c *levelChoice) (bool, error) {
	if c.peak > p.Base.Peak.Bytes || p.Options.SkipLayout {
		return c.peak <= p.Base.Peak.Bytes, nil
	}
	if c.layout == nil {
		e, err := p.evaluate(c.sel)
		if err != nil {
			return false, err
		}
		c.layout = e.Layout(p.ctx)
	}
	if c.layout.Bytes <= p.Base.Peak.Bytes-p.innerPeak() {
		return true, nil // the arena of the graph as it is holds these bytes at once
	}
	if p.baseArena == nil {
		p.baseArena = arena.NewLayout(p.ctx, p.Base, p.bench.AsIs().Bytes)
	}
	return c.layout.Bytes <= p.baseArena.Bytes, nil
}

// innerPeak is the most that lives inside the subgraphs of one node.
func (p *Plan) innerPeak() int64 {
	if p.Sizes.Inner == nil {
		return 0
	}
	return slices.Max(p.Sizes.Inner)
}

// savedBytes sums what the selected candidates free of their stashes.
func (p *Plan) savedBytes(sel *selection) int64 {
	a := p.Analysis
	var total int64
	for _, i := range sel.chosen {
		total += freed(&a.Candidates[i], p.Sizes.Bytes)
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
