package traincmd

import (
	"errors"
	"fmt"
	"math"
	"time"

	"memopt/cmd/memopt/internal/cli"
	"memopt/train"
	"memopt/view/report"
)

// checkEvalOnly refuses flags that do not go with --eval-only. The data of the evaluation are all that it reads.
func (t *training) checkEvalOnly() error {
	switch {
	case len(t.data.eval) == 0:
		return cli.Usage("--eval-only: --eval-data is missing: name the samples for evaluation")
	case t.dryRun:
		return cli.Usage("--eval-only and --dry-run cannot be combined: --dry-run is for the memory of training")
	}
	t.data.paths = t.data.eval
	return nil
}

// sizeEvaluation settles the samples of a batch.
func (t *training) sizeEvaluation() error {
	if t.batch == "auto" && t.config.Resume == nil {
		t.batch = ""
	}
	rows, err := t.rows(train.Selection{})
	if err != nil {
		return err
	}
	if rows, err = t.shareRows(rows); err != nil {
		return err
	}
	t.config.Order.Batch, t.config.Plans = int(rows), &train.Plans{Rows: rows}
	return nil
}

// beginEvaluation settles the weights.
func (t *training) beginEvaluation() (err error) {
	c := &t.config
	c.Steps = t.steps
	if t.steps.Eval == nil {
		return cli.Invalid(fmt.Errorf("%s: makes no loss that can be evaluated", t.name))
	}
	if err := t.initial(); err != nil {
		return err
	}
	if c.Manifest.Model, err = t.job().DescribeModel(); err != nil {
		return cli.FileError("%w", err)
	}
	if c.Manifest.Data.Identity, err = c.Eval.Identity(); err != nil {
		return cli.Usage("--eval-data: %w", err)
	}
	if c.Resume != nil {
		if err := c.Resume.Model.Check(c.Manifest.Model); err != nil {
			return cli.FileError("checkpoint %s: %w", c.Resume.Path, err)
		}
	}
	return nil
}

// evaluate evaluates and reports.
func (t *training) evaluate() error {
	v, c := &t.view, &t.config
	w := newTrainWatcher(t)
	c.Observer = w
	begin := time.Now()
	r, err := train.Evaluate(t.Ctx, c)
	t.App.Status.End()
	switch {
	case errors.Is(err, train.ErrStopped):
		return t.onFirst(&cli.ExitError{Code: cli.ExitInterrupted, Err: err})
	case err != nil:
		return t.classifyTrain(err)
	}
	v.Backend, v.Ranks, v.Data = t.engine.Name(), int(t.ranks()), dataText(t.data.eval, c.Eval)
	v.Took, v.Done, v.EvalLast = time.Since(begin), r.Updates, r.EvalLast
	v.LossFirst, v.LossLast = math.NaN(), math.NaN()
	v.States, v.EvalArena, v.Inputs = r.Predicted.States, r.Predicted.Eval, r.Predicted.Inputs
	v.Measured, v.Process, v.RankArenas = r.MeasuredArena, r.Process, r.RankArenas
	if c.Resume != nil {
		v.Saved = c.Resume.Path
	}
	return t.onFirst(report.TrainEvaluation(t.App.Out, t.format, v))
}
