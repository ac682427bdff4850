package train

import (
	"context"
	"errors"
	"math"

	"memopt/executor"
	"memopt/executor/null"
	"memopt/train/data"
	"memopt/train/events"
)

// evaluation is the forward form of a job's model, on data that are not trained on.
type evaluation struct {
	full  *part
	rest  *part   // for the last batch; nil if all batches have the same rows
	sized []*part // by rung of order, where sizes differ; full is nil then
	order data.Order
}

// ErrStopped is the error of an evaluation that was asked to end.
var ErrStopped = errors.New("stopped by a signal: the evaluation is not complete")

// Evaluate finds the loss of Config.Eval with the weights that a job would begin or go on with, and does not train.
// It needs Rows of Plans. The result has Updates, those of the checkpoint, EvalLast, and the memory of evaluation.
func Evaluate(ctx context.Context, c *Config) (*Result, error) {
	j := newJob(c)
	defer j.close()
	j.joinRanks()
	var err error
	if j.machine, err = j.Engine.Start(ctx, j.Session); err != nil {
		return nil, err
	}
	if err := j.fillStates(func(s *State) bool { return s.Model }); err != nil {
		return nil, err
	}
	if j.eval, err = j.openEval(ctx); err != nil {
		return nil, err
	}
	if j.Resume != nil {
		j.done = j.Resume.Step
	}
	done, err := j.evaluate(ctx)
	if err != nil {
		return nil, err
	}
	if !done {
		return nil, ErrStopped
	}
	j.result.Updates = j.done
	j.result.Predicted = j.predict()
	if j.result.Predicted.States, err = persistentOf(j.Steps.sized(j.Steps.Eval, j.Plans.Rows)); err != nil {
		return nil, err
	}
	j.measured()
	return &j.result, j.arenasOfRanks()
}

// openEval opens the steps of evaluations.
func (j *job) openEval(ctx context.Context) (e *evaluation, err error) {
	rows, err := j.evalRows(ctx)
	if err != nil {
		return nil, err
	}
	e = &evaluation{order: data.Order{Samples: j.Eval.Samples(), Batch: int(rows), Last: data.Keep}}
	if j.Steps.Batch == "" {
		e.order.Last = data.Drop // the file's steps take no other number of rows
	}
	if _, ragged := j.Eval.(data.Ragged); ragged {
		return e, j.openEvalSizes(ctx, e)
	}
	if e.full, err = j.open(ctx, j.Steps.PlanEval(rows)); err != nil {
		return nil, err
	}
	if left := j.Eval.Samples() % rows; left > 0 && j.Steps.Batch != "" {
		e.rest, err = j.open(ctx, j.Steps.PlanEval(left))
	}
	return e, err
}

// evalRows is how many samples an evaluation takes at a time: as many as a step, or as few as it needs
// not to take a larger arena than the steps, which a budget may have made small.
func (j *job) evalRows(ctx context.Context) (int64, error) {
	if j.Steps.Batch == "" {
		return j.Plans.Rows, nil
	}
	rows, most := min(j.Plans.Rows, j.Eval.Samples()), j.predict().Arena
	for rows > 1 && (j.step != nil || j.sized != nil) {
		arena, err := arenaOf(ctx, j.Steps.PlanEval(rows))
		if err != nil || arena <= most {
			return rows, err
		}
		rows = (rows + 1) / 2
	}
	return rows, nil
}

// arenaOf is the arena of a step on the null device, without workspaces.
func arenaOf(ctx context.Context, p *Planned) (int64, error) {
	s, err := executor.Open(ctx, p.Side.Model, p.Side.Types, null.Device{},
		executor.Options{Order: p.Side.Order, Dims: p.Side.Dims})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return s.Prediction().Arena, nil
}

// arena is the bytes that are predicted for the largest step.
func (e *evaluation) arena() int64 {
	return largest(e.parts()).Arena
}

// parts lists the steps; some are nil.
func (e *evaluation) parts() []*part { return append([]*part{e.full, e.rest}, e.sized...) }

// partFor is the step for a batch.
func (e *evaluation) partFor(b *data.Batch) *part {
	switch {
	case e.sized != nil:
		return ofSize(e.sized, &e.order, b.Size)
	case b.Rows != e.order.Batch:
		return e.rest
	}
	return e.full
}

// evaluate finds the loss of all samples: their mean, by the weights of the batches, or their sum. done is
// false where a rank is asked to end meanwhile.
func (j *job) evaluate(ctx context.Context) (done bool, err error) {
	if j.lastEval == j.done && !math.IsNaN(j.result.EvalLast) {
		return true, nil
	}
	if err := j.shareStatistics(); err != nil {
		return false, err
	}
	all, done, err := j.evalLosses(ctx)
	if err != nil || !done {
		return false, err
	}
	loss := all.loss(j.Steps.Weights.Weighing)
	j.result.EvalLast, j.lastEval = loss, j.done
	j.Observer.Evaluated(j.done, loss)
	evalLoss := events.Number(loss)
	j.write(&events.Metrics{Step: j.done, Epoch: j.metrics.Epoch, EvalLoss: &evalLoss})
	j.scalar(j.done, "eval/loss", loss)
	return true, nil
}

// evalLosses adds up the losses of all batches of an evaluation; each batch is computed by one rank. done is
// that of evaluate.
func (j *job) evalLosses(ctx context.Context) (sum tally, done bool, err error) {
	o := j.eval.order
	loader := data.NewLoader(j.Eval, j.Inputs, o, j.share, 0, 0, ahead)
	defer loader.Close()
	turns := (o.Batches() + j.ranks() - 1) / j.ranks()
	mine := make([]float64, 2*turns+1) // the last one: batches that were not tried
	for t := range turns {
		if ctx.Err() != nil {
			mine[2*turns]++
			continue
		}
		b, err := loader.Next(context.WithoutCancel(ctx))
		if err != nil {
			return sum, false, err
		}
		if !b.Idle {
			x := j.eval.partFor(b)
			if err := x.run(context.WithoutCancel(ctx), uint64(j.done), b.Tensors); err != nil {
				return sum, false, err
			}
			mine[2*t], mine[2*t+1] = x.loss(j.Steps.Loss, j.Steps.Weights.Weighing, b.Rows)
		}
		loader.Done(b)
	}
	all, err := j.exchange(mine)
	if err != nil {
		return sum, false, err
	}
	for r := range j.ranks() {
		if all[r*int64(len(mine))+2*turns] > 0 {
			return sum, false, nil
		}
	}
	for b := range o.Batches() { // rank b mod ranks found it in turn b/ranks
		at := all[b%j.ranks()*int64(len(mine))+2*(b/j.ranks()):]
		sum.losses, sum.weights, sum.counted = sum.losses+at[0]*at[1], sum.weights+at[1], sum.counted+1
	}
	return sum, true, nil
}
