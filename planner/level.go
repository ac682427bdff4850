package planner

import (
	"fmt"

	"memopt/recompute"
)

// checkpointSpacings are the distances at which checkpoints are tried where recomputing
// everything does not lower the peak.
var checkpointSpacings = []int{2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128}

// levelChoice is a selection that a level may mean, with what it comes to.
type levelChoice struct {
	sel   *selection
	peak  int64
	saved int64
	why   string // why it is not simply all candidates
}

// levelSelection returns the selection that the plan's level means: all candidates, of
// which some are kept as checkpoints where nothing else lowers the peak. Level 2
// looks among more selections than level 1 and neither peaks higher nor frees less.
// Without sizes it is all candidates.
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
		if best == floor && floor.why == "" && len(both.byEntry) > len(floor.sel.byEntry) {
			best.why = "strategy 2 would raise the peak and is left out: this is the plan of level 1"
		}
	}
	if best.why != "" {
		p.Warnings = append(p.Warnings, best.why)
	}
	return best.sel, nil
}

// bestOf returns the selection, or that with the lowest peak among it with checkpoints where it does not lower the
// peak alone. With a floor, what peaks as high or frees less than the floor does not count, and the floor is
// returned where nothing does.
func (p *Plan) bestOf(full *selection, floor *levelChoice) (*levelChoice, error) {
	all, err := p.weigh(full, "")
	if err != nil {
		return nil, err
	}
	best := all
	if floor != nil && (all.peak > floor.peak || all.saved < floor.saved) {
		best = floor
	}
	if all.peak < p.Base.Peak.Bytes || len(full.byEntry) == 0 {
		return best, nil
	}
	for _, every := range checkpointSpacings {
		c, err := p.weigh(full.withCheckpoints(p.Analysis, every), fmt.Sprintf(
			"recomputing everything would not lower the peak, because nothing is left to start from: one value in %d is kept as a checkpoint (--save-plan records which; a configuration cannot)", every))
		if err != nil {
			return nil, err
		}
		if c.peak < best.peak && (floor == nil || c.saved >= floor.saved) {
			best = c
		}
	}
	return best, nil
}

// weigh evaluates a selection.
func (p *Plan) weigh(sel *selection, why string) (*levelChoice, error) {
	e, err := p.evaluate(sel)
	if err != nil {
		return nil, err
	}
	return &levelChoice{sel, e.peak, p.savedBytes(sel), why}, nil
}

// savedBytes sums what the selected candidates free of their stashes.
func (p *Plan) savedBytes(sel *selection) int64 {
	a := p.Analysis
	var total int64
	for _, i := range sel.candidates(a) {
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
