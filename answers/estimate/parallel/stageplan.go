package parallel

import (
	"context"
	"errors"

	"memopt/internal/timelimit"
	"memopt/planner"
)

// Searches is how often the planner is asked for a chunk of a stage that does not fit: each time halves
// the range of budgets.
const Searches = 7

// plan plans the stages that do not fit, and finds the one that limits.
func (s *splitter) plan() error {
	r := s.out
	for i := range r.Stages {
		st := &r.Stages[i]
		if s.opts.Memory > 0 {
			ctx, done := timelimit.Share(s.ctx, 1/float64(len(r.Stages)-i))
			err := s.planStage(ctx, st)
			done()
			if err != nil {
				return err
			}
		}
		if st.need() > r.Stages[r.Limiting].need() {
			r.Limiting = i
		}
	}
	return nil
}

// need is the memory of a stage, with its plan if it has one.
func (st *Stage) need() int64 {
	if st.Plan != nil {
		return st.Plan.Total
	}
	return st.Parts.Total()
}

// planStage finds a plan that makes a stage fit. Recomputation shrinks stashes, too, so a micro-batch's
// largest budget that fits lies between the device's free memory beside unchanged stashes, which is
// tried first, and the arena of the unchanged graph; it is found by bisection. A context that is done
// ends the search with the first plan that was found.
func (s *splitter) planStage(ctx context.Context, st *Stage) error {
	total := st.Parts.Total()
	st.Budget = s.opts.Memory - (total - st.load.peak(st))
	if total <= s.opts.Memory {
		return nil
	}
	low, high := 0.0, 1.0
	for i := 0; i < Searches && (i == 0 || ctx.Err() == nil); i++ {
		share := (low + high) / 2
		if at := float64(st.Budget) / float64(st.load.peak(st)); i == 0 && at > 0 {
			share = min(at, 1)
		}
		within, done := timelimit.Share(ctx, 1/float64(Searches-i))
		plan, err := s.try(within, st, share)
		done()
		var infeasible *planner.InfeasibleError
		switch {
		case errors.As(err, &infeasible):
			low = share
			continue
		case err != nil:
			return err
		case !plan.Fits:
			high = share
			if st.Plan == nil || !st.Plan.Fits && plan.Total < st.Plan.Total {
				st.Plan = plan
			}
			continue
		}
		if st.Plan == nil || !st.Plan.Fits || plan.Overhead <= st.Plan.Overhead {
			st.Plan = plan
		}
		low = share
	}
	return nil
}

// peak is the arena of the micro-batch that runs.
func (l *load) peak(st *Stage) int64 { return st.Chunks[l.chunk].Peak }

// try plans the chunks of a stage for a share of their arenas.
func (s *splitter) try(ctx context.Context, st *Stage, share float64) (*StagePlan, error) {
	out := &StagePlan{}
	var uses []Usage
	var seconds, again float64
	for i := range st.Chunks {
		c := &st.Chunks[i]
		b := s.opts.Search
		b.Total, b.Share, b.Arena = 0, 0, max(1, int64(share*float64(c.Peak)))
		within, done := timelimit.Share(ctx, 1/float64(len(st.Chunks)-i))
		p, err := c.model.model.Plan(within, b, s.opts.Plan)
		done()
		if err != nil {
			return nil, err
		}
		uses = append(uses, c.model.usage(p))
		step := p.Baseline().Step.Seconds
		seconds += step
		again += p.Overhead * step
		out.Nodes += p.Recompute.Nodes
	}
	out.Parts, _ = s.worst(st, uses)
	out.Total = out.Parts.Total()
	out.Fits = out.Total <= s.opts.Memory
	if seconds > 0 {
		out.Overhead = again / seconds
	}
	return out, nil
}
