package traincmd

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/executor"
	"memopt/internal/memlimit"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/train"
	"memopt/view/report"
)

// choosePlan settles the selection of the plan, and the samples of a step.
func (t *training) choosePlan() (err error) {
	traits := t.engine.Traits()
	how := option.Planning{Executes: option.OnCPU(traits), Searches: true, Moves: true}
	if t.chosen, err = t.selection.Resolve(t.App, t.steps.Step, how); err != nil {
		return err
	}
	if t.moving.Asked() {
		if _, err := option.CheckMoves(t.chosen.Strategy); err != nil {
			return err
		}
	}
	t.RestartClock(time.Now()) // data that were read are no part of the search
	t.App.Status.Say("planning")
	t.chosen.Options.Threads = t.Global.Threads
	rows, err := t.rows(t.selected())
	t.config.Order.Batch = int(rows)
	return err
}

// selected is the selection of the plan.
func (t *training) selected() train.Selection {
	return train.Selection{Strategy: t.chosen.Strategy, Options: t.chosen.Options, Traits: t.engine.Traits(),
		Seed: t.Global.Seed, Moves: t.moving, Moved: t.chosen.Moved}
}

// plan plans the steps.
func (t *training) plan() (err error) {
	c, sel := &t.config, t.selected()
	rows, err := t.shareRows(int64(c.Order.Batch))
	if err != nil {
		return err
	}
	c.Order.Batch = int(rows)
	if err := c.Order.Check(); err != nil {
		return cli.Usage("--data: %w", err)
	}
	rest := int64(0)
	if batches := c.Order.Batches(); batches > 0 {
		if last := int64(c.Order.Rows(batches - 1)); last != rows {
			rest = last
		}
	}
	if t.stays, err = t.steps.Stays(rows); err != nil {
		return cli.Classify(err)
	}
	if err := t.homeFits(rows); err != nil {
		return err
	}
	sel = t.selected()
	if b, ok := sel.Strategy.(memopt.Budget); ok {
		c.Limit = b.Total
	}
	banded, err := t.bandsOf(sel)
	if err != nil {
		return err
	}
	c.Plans, err = t.steps.Plan(t.SearchFor(sel.Strategy), rows, rest, banded)
	if err == nil {
		err = t.fits(c.Plans)
	}
	if train.Infeasible(err) && t.Ctx.Err() == nil {
		return t.infeasible(err, rows, sel)
	}
	if file := (*train.PlanFileError)(nil); errors.As(err, &file) {
		return cli.Usage("%s: %w", t.selection.Plan, err)
	}
	if err != nil {
		return t.ClassifyPlan(t.name, err)
	}
	for _, w := range c.Plans.Step.Plan.Warnings {
		t.Warn("%s", w)
	}
	return nil
}

// limit is the bytes of the whole job: --budget if it is no share, else the free memory.
func (t *training) limit() (int64, string) {
	if b, ok := t.chosen.Strategy.(memopt.Budget); ok && b.Total > 0 {
		return b.Total, t.selection.BudgetFlags.Flag()
	}
	if d, ok := t.engine.Traits().Device.(executor.Accelerator); ok {
		if free, known := d.Memory().Available(); known {
			return free, "the device's free memory"
		}
	}
	if l, ok := memlimit.Available(); ok {
		if n := int64(t.launch.LocalSize); n > 1 {
			return l.Bytes / n, fmt.Sprintf("%s, shared by the %d ranks of this machine", l.By, n)
		}
		return l.Bytes, l.By
	}
	return math.MaxInt64, ""
}

// fits refuses plans that take more than there is.
func (t *training) fits(p *train.Plans) error {
	limit, by := t.limit()
	if total := p.Total(); total > limit {
		return fmt.Errorf("%w: the job takes %d bytes (%d that stay, %d of inputs, an arena of %d), "+
			"and %d are there, by %s", executor.ErrOutOfMemory, total, p.Persistent, p.Inputs, p.Arena(), limit, by)
	}
	return t.fitsHost(p)
}

// fitsHost refuses plans whose copies on the host take more than there is.
func (t *training) fitsHost(p *train.Plans) error {
	copies := p.Host()
	if t.config.Home != nil {
		return nil // they lie in its folder
	}
	l, ok := memlimit.Available()
	if copies == 0 || !ok {
		return nil
	}
	total, there := copies, l.Bytes/max(int64(t.launch.LocalSize), 1)
	if _, apart := t.engine.Traits().Device.(executor.Accelerator); !apart {
		total += p.Total()
	}
	if total > there {
		return fmt.Errorf("%w: the job takes %d bytes of the host, %d of them for values that move there, and %d are "+
			"there, by %s: lower --host-budget", executor.ErrOutOfMemory, total, copies, there, l.By)
	}
	return nil
}

// rows is the number of samples of a step.
func (t *training) rows(sel train.Selection) (int64, error) {
	if c := t.config.Resume; c != nil && t.steps.Batch != "" && (t.batch == "" || t.batch == "auto") {
		s, err := train.SavedSettings(c) // the job goes on as it began
		return s.Batch, cli.Classify(err)
	}
	bound, isBound := t.steps.Step.Dims[t.steps.Batch]
	switch n, err := strconv.ParseInt(t.batch, 10, 64); {
	case t.steps.Batch == "" && t.batch != "" && t.batch != fmt.Sprint(t.steps.Rows):
		return 0, cli.Usage("--batch %s: the model has the fixed batch %d", t.batch, t.steps.Rows)
	case t.steps.Batch == "":
		return t.steps.Rows, nil
	case t.batch == "auto":
		return t.largest(sel)
	case t.batch == "" && isBound:
		return bound, nil
	case t.batch == "":
		return min(defaultBatch, t.config.Source.Samples()), nil
	case err != nil || n < 1 || n > math.MaxInt32:
		return 0, cli.Usage("--batch %q: wanted a number of samples from 1 on, or auto", t.batch)
	default:
		return n, nil
	}
}

// defaultBatch is per_device_train_batch_size of TrainingArguments.
const defaultBatch = 8

// batchShare is the part of the time for the search of --batch auto; the rest is for the plan of that batch.
const batchShare = 0.6

// largest is the most samples of a step that fit.
func (t *training) largest(sel train.Selection) (int64, error) {
	limit, by := t.limit()
	if b, ok := sel.Strategy.(memopt.Budget); ok {
		b.Effort = 0 // for each number of samples, the first plan that fits
		sel.Strategy = b
	}
	t.App.Status.Say("looking for the largest batch that fits")
	within, done := timelimit.Share(t.Search, batchShare)
	defer done()
	rows, _ := train.Largest(within, t.steps, t.config.Source.Samples(), limit, sel)
	if rows == 0 && t.Ctx.Err() == nil {
		_, err := t.steps.Plan(t.Search, 1, 0, sel)
		if err == nil {
			err = fmt.Errorf("%w: not even one sample fits into %d bytes, by %s", executor.ErrOutOfMemory, limit, by)
		}
		return 0, t.infeasible(err, 1, sel)
	}
	t.Note("--batch auto: %d samples of a step are the most that fit %s (%s)", rows, report.Bytes(limit), by)
	return rows, nil
}

// unfit says that a job does not fit, with the changes that would make it fit.
func (t *training) infeasible(err error, rows int64, sel train.Selection) error {
	limit, _ := t.limit()
	also := ""
	var low *planner.InfeasibleError
	if b, ok := sel.Strategy.(memopt.Budget); ok && b.Total == 0 && errors.As(err, &low) {
		// A share is of another baseline where the job is another one.
		limit = t.stays + low.Budget
		also = fmt.Sprintf(" --budget %d", limit)
	}
	remake := func(r train.Recipe) (*train.Steps, error) {
		s, err := train.Make(t.model, r)
		if err == nil {
			err = s.Bind(t.config.Inputs)
		}
		if err == nil && t.ragged.symbol != "" {
			err = s.Vary(t.ragged.symbol, t.ragged.Lo)
		}
		return s, err
	}
	t.App.Status.Say("looking for a step that fits")
	ways := train.Ways(t.Search, t.steps, t.recipe, rows, limit, sel, remake)
	for _, w := range ways {
		t.Say("fits:", fmt.Sprintf("%s takes %s: %s", w.What+also, report.Bytes(w.Total), w.Price))
	}
	if len(ways) == 0 {
		t.Say("fits:", "no change that was tried: smaller batches with accumulation, recomputation, "+
			"an optimizer without state")
	}
	return t.ClassifyPlan(t.name, err)
}
