package traincmd

import (
	"errors"
	"fmt"
	"time"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/executor/verify"
	"memopt/graph/live"
	"memopt/planner"
	"memopt/train"
	"memopt/view/report"
)

// run executes the job and reports.
func (t *training) run() error {
	// A job that has begun ends by its own rules: after an update, with a checkpoint.
	t.Keeper.Stay()
	executor.SettleProcessMemory() // the memory of planning is not the job's
	w := newTrainWatcher(t)
	t.config.Observer = w
	begin := time.Now()
	r, err := train.Run(t.Ctx, &t.config)
	t.App.Status.End()
	if err != nil {
		return t.classifyTrain(err)
	}
	v := &t.view
	v.Took = time.Since(begin)
	v.Done, v.Skipped, v.Stopped, v.Saved = r.Updates, r.Skipped, r.Stopped, r.Saved
	v.RankArenas, v.Waited = r.RankArenas, r.Waited
	v.LossFirst, v.LossLast, v.EvalLast, v.Measured = r.LossFirst, r.LossLast, r.EvalLast, r.MeasuredArena
	if v.Process = r.Process; v.Moves != nil {
		v.Moves.Measured, v.Moves.Ranks = r.MeasuredHost, r.RankHosts
	}
	v.PerSecond = w.rate()
	if err := report.TrainReport(t.App.Out, t.format, v); err != nil {
		return err
	}
	if err := t.Next(t.format, t.afterTrain(r)); err != nil {
		return err
	}
	return t.onFirst(t.ended(r))
}

// foretell reports the predicted memory of the job.
func (t *training) foretell() error {
	p, v := t.config.Plans, &t.view
	v.States, v.Inputs, v.Arena = p.Persistent, p.Inputs, p.Arena()
	if err := report.TrainForetold(t.App.Out, t.format, v); err != nil {
		return err
	}
	return t.Next(t.format, &cli.NextCommand{Verb: "train", Args: t.models()})
}

// ended is the exit code of a job that has ended without an error.
func (t *training) ended(r *train.Result) error {
	switch {
	case r.Stopped && r.Saved != "":
		return &cli.ExitError{Code: cli.ExitSaved,
			Err: fmt.Errorf("stopped by a signal after update %d of %d; %s has the checkpoint: "+
				"go on with --resume", r.Updates, t.config.Updates, r.Saved)}
	case r.Stopped:
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: fmt.Errorf("stopped by a signal after update %d of %d; no state is kept without -o",
				r.Updates, t.config.Updates)}
	}
	promised := max(t.view.Arena, t.view.EvalArena)
	limit := float64(promised) * (1 + t.engine.Traits().PeakTolerance)
	if t.engine.Traits().Reorders { // its arena rounds every value up
		limit += float64(verify.Grain * len(t.config.Plans.Step.Side.Model.Graph.Values))
	}
	most, where := r.MeasuredArena, ""
	for rank, n := range r.RankArenas {
		if n > most {
			most, where = n, fmt.Sprintf("rank %d: ", rank)
		}
	}
	if float64(most) > limit {
		return &cli.ExitError{Code: cli.ExitAbove,
			Err: fmt.Errorf("%s: %sthe measured arena of %d bytes is above the predicted one of %d",
				t.name, where, most, promised)}
	}
	if m := t.view.Moves; m != nil && r.MeasuredHost > m.Host {
		return &cli.ExitError{Code: cli.ExitAbove,
			Err: fmt.Errorf("%s: values that move to the host took %d bytes there, more than the predicted %d",
				t.name, r.MeasuredHost, m.Host)}
	}
	return nil
}

// classifyTrain gives an error of a job its exit code.
func (t *training) classifyTrain(err error) error {
	var nan *train.NotFiniteError
	var group *train.GroupError
	switch {
	case errors.As(err, &group), ofMPI(err):
		return lostGroup(cli.Wrap(t.name, err))
	case errors.As(err, &nan):
		t.together = true
		return &cli.ExitError{Code: cli.ExitDiffers, Err: fmt.Errorf("%s: %w", t.name, err)}
	case errors.Is(err, live.ErrNoBoundary), errors.Is(err, planner.ErrInfeasible):
		return t.ClassifyPlan(t.name, err)
	}
	return cli.Classify(cli.Wrap(t.name, err))
}

// models are the model of a job's command line, where it has one.
func (t *training) models() []string { return []string{t.given} }

// afterTrain writes the trained model, or goes on with a job that was stopped.
func (t *training) afterTrain(r *train.Result) *cli.NextCommand {
	switch {
	case r.Saved == "" || t.ranks() > 1:
		return nil
	case r.Stopped:
		return &cli.NextCommand{Verb: "train", Bare: true, Set: [][2]string{{"resume", ""}, {"out", t.out}}}
	case t.steps.Forward == nil:
		return nil
	}
	return &cli.NextCommand{Verb: "export", Args: []string{r.Saved}, Bare: true,
		Set: [][2]string{{"out", cli.FileLike(t.name, ".trained.onnx")}}}
}
