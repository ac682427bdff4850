package train

import (
	"context"
	"fmt"
	"math"
	"slices"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/hint"
	"memopt/internal/half"
	"memopt/internal/memlimit"
	"memopt/train/data"
)

// part is a step of a job that is open.
type part struct {
	resident.Step
	inputs []*executor.Tensor // by place
	fromAt []int              // by place: the place among the data's tensors; -1 means that inputs holds its only value
	names  []string           // of the outputs that are fetched
	side   *verify.Side
}

// open opens a planned step; nil stays nil.
func (j *job) open(ctx context.Context, p *Planned) (*part, error) {
	if p == nil {
		return nil, nil
	}
	g := p.Side.Model.Graph
	x := &part{side: &p.Side}
	var o resident.StepOptions
	for _, name := range []string{j.Steps.Loss, autograd.NormOutput, autograd.FiniteOutput, autograd.WeightOutput} {
		if v, ok := g.Lookup(name); ok && g.Values[v].Output {
			x.names = append(x.names, name)
		}
	}
	if !p.eval {
		o.Watch = j.Steps.watched(g)
	}
	o.Fetch = x.names
	var err error
	if x.Step, err = j.machine.Open(ctx, p.Side, o); err != nil {
		return nil, err
	}
	return x, j.bind(x)
}

// bind finds the source of each input of a step.
func (j *job) bind(x *part) error {
	for _, name := range x.Inputs() {
		from, fixed, err := -1, (*executor.Tensor)(nil), error(nil)
		switch {
		case name == autograd.LRInput:
			fixed = j.rate
		case name == autograd.UnitInput:
			fixed = j.unit
		case name == autograd.CountsInput:
			fixed = j.counts
		case name == autograd.TotalInput:
			fixed = j.total
		case name == j.Steps.Joint.LossScale, name == j.Steps.LossGrad:
			fixed = j.scale
		case slices.Contains(j.Steps.Joint.OtherGrads, name):
			fixed, err = zeros(x.side, name)
		default:
			from = slices.IndexFunc(j.Inputs, func(in data.Input) bool { return in.Name == name })
			if from < 0 {
				return fmt.Errorf("input %q has no source for its value", name)
			}
		}
		if err != nil {
			return err
		}
		x.inputs, x.fromAt = append(x.inputs, fixed), append(x.fromAt, from)
	}
	return nil
}

// zeros are the gradient of an output that the loss does not count.
func zeros(side *verify.Side, name string) (*executor.Tensor, error) {
	v, _ := side.Model.Graph.Lookup(name)
	t := side.Model.Graph.Values[v].Type
	shape := executor.EvalShape(t, side.Dims)
	n, ok := executor.Bytes(t.DType, shape)
	if shape == nil || !ok {
		return nil, callerError("the gradient %q is %v: bind its symbols with %v", name, t, hint.Dims)
	}
	if err := memlimit.Check(int64(n), "the gradient %q", name); err != nil {
		return nil, err
	}
	return &executor.Tensor{DType: t.DType, Shape: shape, Data: make([]byte, (n+7)&^7)[:n]}, nil
}

// run executes the step on a batch.
func (x *part) run(ctx context.Context, number uint64, batch []*executor.Tensor) error {
	x.take(batch)
	return x.Step.Run(ctx, number, x.inputs)
}

// take puts a batch's tensors where the step's inputs are.
func (x *part) take(batch []*executor.Tensor) {
	for i, from := range x.fromAt {
		if from >= 0 {
			x.inputs[i] = batch[from]
		}
	}
}

// firstBad finds the first value of the step that is not finite.
func (x *part) firstBad(ctx context.Context, number uint64, batch []*executor.Tensor) (value, node string, err error) {
	x.take(batch)
	return x.Step.FirstBad(ctx, number, x.inputs)
}

// float is a fetched output of one element; NaN if the step has no output of that name.
func (x *part) float(name string) float64 {
	i := slices.Index(x.names, name)
	if i < 0 {
		return math.NaN()
	}
	t := x.Output(i)
	switch t.DType {
	case graph.Float32:
		return float64(executor.Of[float32](t)[0])
	case graph.Float64:
		return executor.Of[float64](t)[0]
	case graph.Float16:
		return float64(executor.Of[half.Float16](t)[0].Float32())
	case graph.BFloat16:
		return float64(executor.Of[half.BFloat16](t)[0].Float32())
	}
	return math.NaN()
}

// checkLoss is the error for a loss that is not finite, of an engine that does not watch it or a graph
// with a loss scale, whose gradients alone may overflow.
func checkLoss(name string, loss float64) error {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return &resident.NotFiniteError{Value: name}
	}
	return nil
}

// loss is the loss of the last batch, with rows samples, and its weight. A loss of weight 0 is 0: its mean would
// divide by 0 and be NaN.
func (x *part) loss(name string, w autograd.Weighing, rows int) (loss, weight float64) {
	loss, weight = x.float(name), x.float(autograd.WeightOutput)
	switch {
	case w == autograd.Summed:
		return loss, 1
	case math.IsNaN(weight):
		return loss, float64(rows)
	case weight == 0:
		return 0, 0
	}
	return loss, weight
}

// finite reports whether the update was made.
func (x *part) finite() bool {
	i := slices.Index(x.names, autograd.FiniteOutput)
	return i < 0 || x.Output(i).Data[0] != 0
}
