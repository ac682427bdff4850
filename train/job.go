package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/resident"
	"memopt/graph"
	"memopt/train/data"
)

// job is a job under way.
type job struct {
	*Config
	machine resident.Machine
	step    *part   // of a micro-batch
	rest    *part   // of the last one of an epoch, or nil
	sized   []*part // of a micro-batch, by rung of Order, where sizes differ; step is nil then
	combine *part   // adds up the sums of several ranks, or nil
	update  *part   // applies sums, or nil
	eval    *evaluation
	loader  *data.Loader
	share   data.Share // of the batches: this rank's
	tally   tally      // of the update under way

	before outset // where the job was before the update under way

	done    int64 // updates
	epoch   int64 // of the next micro-batch
	index   int64 // of the next micro-batch in its epoch
	skipped int64 // updates that were not made, or without a batch of theirs
	samples int64

	rate, scale         *executor.Tensor
	counts, total       *executor.Tensor // which ranks, and how many micro-batches, an update counts
	unit                *executor.Tensor // autograd.UnitInput
	window              window
	metrics             Metrics // of the last update
	lastSaved, lastEval int64
	unkept              bool // the states of the last update are not the checkpoint of the home
	result              Result
}

// Run executes a job. A context that is done ends it after the micro-batch that is under way, with a
// checkpoint: that of the last whole update, unless the micro-batch completes one. The error is
// a *NotFiniteError if a loss is not finite and the job is to stop then.
func Run(ctx context.Context, c *Config) (*Result, error) {
	j := newJob(c)
	defer j.close()
	j.joinRanks()
	if err := j.start(ctx); err != nil {
		return nil, err
	}
	if err := j.loop(ctx); err != nil {
		return &j.result, err
	}
	return &j.result, j.finish(ctx)
}

// newJob is a job that has not begun.
func newJob(c *Config) *job {
	j := &job{Config: c,
		rate:  executor.NewTensor(graph.Float32, nil, float32(0)),
		scale: executor.NewTensor(graph.Float32, nil, float32(1)),
		unit:  executor.NewTensor(graph.Float32, nil, c.Steps.unit(c.Plans.Rows))}
	j.result.LossFirst, j.result.LossLast, j.result.EvalLast = math.NaN(), math.NaN(), math.NaN()
	return j
}

// start readies the machine, the steps and the data.
func (j *job) start(ctx context.Context) (err error) {
	if err := j.settle(); err != nil {
		return err
	}
	if j.machine, err = j.Engine.Start(ctx, j.Session); err != nil {
		return err
	}
	if err := j.fillStates(func(*State) bool { return true }); err != nil {
		return err
	}
	if j.Order.Sizes != nil {
		err = j.openSizes(ctx)
	} else {
		j.step, err = j.open(ctx, j.Plans.Step)
	}
	if err != nil {
		return err
	}
	if j.rest, err = j.open(ctx, j.Plans.Rest); err != nil {
		return err
	}
	if j.combine, err = j.open(ctx, j.Plans.Combine); err != nil {
		return err
	}
	if j.update, err = j.open(ctx, j.Plans.Update); err != nil {
		return err
	}
	if err := j.findCarried(); err != nil {
		return err
	}
	if j.Eval != nil {
		if j.eval, err = j.openEval(ctx); err != nil {
			return err
		}
	}
	if j.Resume != nil {
		if err := j.resume(); err != nil {
			return err
		}
	}
	if err := j.keep(false); err != nil {
		return err
	}
	j.result.Updates = j.done
	j.result.Predicted = j.predict()
	if total := j.result.Predicted.Total(); j.Limit > 0 && total > j.Limit {
		return fmt.Errorf("%w: the job takes %d bytes, and %d are to be enough: evaluation needs an arena of "+
			"%d, the steps one of %d", executor.ErrOutOfMemory, total, j.Limit, j.result.Predicted.Eval,
			j.result.Predicted.Arena)
	}
	j.Observer.Ready(j.result.Predicted)
	j.loader = data.NewLoader(j.Source, j.Inputs, j.Order, j.share, j.epoch, j.index, ahead)
	return nil
}

// ahead is how many batches are prepared while a step runs.
const ahead = 2

// predict adds up the predicted memory of the job's steps on the machine.
func (j *job) predict() Prediction {
	p := Prediction{States: j.Plans.Persistent, Inputs: j.Plans.Inputs, Home: j.Plans.Home,
		Ahead: ahead * j.Plans.Inputs}
	if j.Ranks != nil {
		p.Staging = j.Ranks.StagingBytes()
	}
	most := largest(j.parts())
	p.Arena, p.Host = most.Arena, most.Host
	if j.eval != nil {
		p.Eval = j.eval.arena()
	}
	return p
}

// loop makes updates until all are made or the context is done.
func (j *job) loop(ctx context.Context) error {
	j.window.begin(time.Now(), j.skipped)
	for j.done < j.Updates {
		if stop, err := j.stops(ctx); err != nil {
			return err
		} else if stop {
			j.result.Stopped = true
			return nil
		}
		m, err := j.advance(ctx)
		if err != nil {
			return err
		}
		if m == nil {
			j.result.Stopped = true
			return nil
		}
		j.keepOn()
		j.Observer.Updated(j.done, m)
		if err := j.after(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// advance makes one update. A context that is done ends it between micro-batches; the metrics are nil
// then, and the job is where it was before the update.
func (j *job) advance(ctx context.Context) (*Metrics, error) {
	whole := context.WithoutCancel(ctx) // for steps, which are never left half done
	rate := j.Schedule.At(j.done)
	executor.Of[float32](j.rate)[0] = float32(rate)
	if j.Scale != nil {
		executor.Of[float32](j.scale)[0] = float32(j.Scale.Value)
	}
	u := &j.tally
	u.begin(j.index)
	if err := j.setOut(); err != nil {
		return nil, err
	}
	for k := range j.turnsLeft() {
		if j.update != nil && ctx.Err() != nil {
			u.add(untried, 0, 0)
			continue
		}
		if err := j.micro(whole, k); err != nil {
			return nil, err
		}
	}
	if err := j.addUp(); err != nil {
		return nil, err
	}
	if u.cut {
		return nil, j.goBack()
	}
	if j.update != nil {
		if err := j.apply(whole, u.counted, &u.norm, &u.finite); err != nil {
			return nil, err
		}
	}
	if j.index >= j.Order.Batches() {
		j.epoch, j.index = j.epoch+1, 0
	}
	if err := j.rescale(u.finite); err != nil {
		return nil, err
	}
	if !u.finite || u.short {
		j.skipped++
	}
	j.done++
	j.result.Updates, j.result.Skipped = j.done, j.skipped
	return j.measure(u.loss(j.Steps.Weights.Weighing), rate, u.norm), nil
}

// micro runs this rank's batch of a turn. Numbers that are not finite are judged once all ranks'
// results are known.
func (j *job) micro(ctx context.Context, k int64) error {
	b, err := j.loader.Next(ctx)
	if err != nil {
		return err
	}
	defer j.loader.Done(b)
	j.countTurn()
	if b.Idle && j.update != nil {
		j.tally.add(idle, 0, 0)
		return nil
	}
	x := j.partFor(b)
	err = x.run(ctx, j.number(k), b.Tensors)
	if unexpected(err) {
		return err
	}
	loss, weight := math.NaN(), 0.0
	if err == nil {
		loss, weight = x.loss(j.Steps.Loss, j.Steps.Weights.Weighing, b.Rows)
		err = checkLoss(j.Steps.Loss, loss)
	}
	switch {
	case b.Idle:
		j.tally.add(idle, 0, 0)
		err = nil
	case j.Steps.agreed:
		j.tally.note(loss, weight, err)
		err = nil
	default:
		err = j.judge(ctx, x, k, b, err)
		j.tally.note(loss, weight, err)
	}
	if j.update == nil && err == nil {
		j.tally.norm, j.tally.finite = x.float(autograd.NormOutput), x.finite()
	}
	return j.tally.keep(err, j.Ranks != nil)
}

// apply applies the sums of gradients.
func (j *job) apply(ctx context.Context, counted int64, norm *float64, finite *bool) error {
	if counted == 0 {
		return nil // the sums are zeros: no micro-batch has added to them
	}
	if j.combine != nil {
		if err := j.combine.run(ctx, uint64(j.done), nil); err != nil {
			return err
		}
	}
	err := j.update.run(ctx, uint64(j.done), nil)
	var bad *resident.NotFiniteError
	if errors.As(err, &bad) {
		if j.OnNaN == StopOnNaN {
			return j.sumsNotFinite(bad.Value)
		}
		*finite = false
		return j.zeroSums()
	}
	if err != nil {
		return err
	}
	*norm, *finite = j.update.float(autograd.NormOutput), j.update.finite()
	return nil
}

// zeroSums clears the sums of the micro-steps.
func (j *job) zeroSums() error {
	for i := range j.Steps.States {
		if s := &j.Steps.States[i]; j.Steps.isSum(s.Name) {
			shape := executor.EvalShape(s.Type, j.Steps.dims(j.Plans.Rows))
			if err := j.machine.Zero(s.Name, s.Type.DType, shape); err != nil {
				return err
			}
		}
	}
	return nil
}

// partFor is the step for a batch.
func (j *job) partFor(b *data.Batch) *part {
	if j.sized != nil {
		return ofSize(j.sized, &j.Order, b.Size)
	}
	if int64(b.Rows) == j.Plans.Rows {
		return j.step
	}
	return j.rest
}

// close frees everything.
func (j *job) close() {
	if j.loader != nil {
		j.loader.Close()
	}
	if j.machine != nil {
		j.machine.Close()
	}
}

// isSum reports whether a state is a sum of gradients or their count.
func (s *Steps) isSum(name string) bool {
	if s.Update == nil {
		return false
	}
	return name == autograd.CountInput || slices.ContainsFunc(s.Params, func(p string) bool {
		return name == p+autograd.SumSuffix
	})
}
