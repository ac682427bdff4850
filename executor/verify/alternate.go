package verify

import (
	"context"
	"errors"
	"fmt"

	"memopt/executor"
)

// pair is two executions side by side.
type pair struct {
	baseline, planned *execution
	opts              Options
	done              int // steps of both
}

// executeBoth executes two sides. Their measured steps alternate, so that other work on the machine
// slows both down alike and the ratio of their times is meaningful. Both sides are then open at
// once; if memory does not suffice for that, or both would need the same arena, or there is only
// one measured step, one side runs after the other, and alternated is false.
func executeBoth(
	ctx context.Context, baseline, planned Side, inputs map[string]*executor.Tensor, opts Options,
) (a, b *Run, alternated bool, err error) {
	p := &pair{opts: opts}
	defer p.close()
	if p.baseline, err = start(ctx, baseline, inputs, opts); err != nil {
		return nil, nil, false, fmt.Errorf("the baseline: %w", err)
	}
	// The steps up to the first measured one belong to one side alone.
	if err := p.advance(ctx, p.baseline, max(opts.Warmup, 1)); err != nil {
		return nil, nil, false, err
	}
	if opts.Repeat <= 1 || !p.baseline.steps.Shares() {
		if err := p.complete(ctx, p.baseline); err != nil {
			return nil, nil, false, err
		}
	}
	p.planned, err = start(ctx, planned, inputs, opts)
	if errors.Is(err, executor.ErrOutOfMemory) && p.baseline.steps != nil {
		// The weights of both do not fit.
		if err := p.complete(ctx, p.baseline); err != nil {
			return nil, nil, false, err
		}
		p.planned, err = start(ctx, planned, inputs, opts)
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("the planned graph: %w", err)
	}
	if !p.planned.steps.Fits() {
		if err := p.complete(ctx, p.baseline); err != nil {
			return nil, nil, false, err
		}
	}
	if err := p.advance(ctx, p.planned, max(opts.Warmup, 1)); err != nil {
		return nil, nil, false, err
	}
	alternated = p.baseline.steps != nil
	for n := p.planned.done; n <= p.planned.total; n++ {
		if err := p.advance(ctx, p.baseline, n); err != nil {
			return nil, nil, false, err
		}
		if err := p.advance(ctx, p.planned, n); err != nil {
			return nil, nil, false, err
		}
	}
	for _, e := range []*execution{p.baseline, p.planned} {
		if err := p.complete(ctx, e); err != nil {
			return nil, nil, false, err
		}
	}
	return p.baseline.run, p.planned.run, alternated, nil
}

// advance runs steps until n of an execution are done.
func (p *pair) advance(ctx context.Context, e *execution, n int) error {
	for e.done < min(n, e.total) {
		if err := e.step(ctx); err != nil {
			if e == p.baseline {
				return fmt.Errorf("the baseline: %w", err)
			}
			return fmt.Errorf("the planned graph: %w", err)
		}
		p.done++
		if p.opts.Progress != nil {
			p.opts.Progress(p.done, 2*e.total)
		}
	}
	return nil
}

// complete runs the rest of an execution, notes its outcome and closes it. An execution that is
// closed already stays as it is.
func (p *pair) complete(ctx context.Context, e *execution) error {
	if e.steps == nil {
		return nil
	}
	if err := p.advance(ctx, e, e.total); err != nil {
		return err
	}
	err := e.steps.Finish(ctx)
	e.close()
	return err
}

func (p *pair) close() {
	for _, e := range []*execution{p.baseline, p.planned} {
		if e != nil {
			e.close()
		}
	}
}
