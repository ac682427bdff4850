package autograd

import (
	"errors"

	"memopt/graph"
	"memopt/graph/op"
)

// UpdateStep makes the step that applies the gradients that micro-steps have accumulated (Options.Accumulate): it
// reads the parameters, the sums of their gradients and CountInput, updates the parameters as AppendOptimizer
// does with the sums divided by the count, and leaves sums and count at zero. So micro-steps of equally many
// samples, whose loss is a mean, and one update equal a step of all samples together, within rounding. Means over
// the labels that are not ignored, and steps of other numbers of samples, do so if they have weights
// (Options.Weigh); without them each step counts the same, as in PyTorch. Sums are not divided by the count.
//
// With a loss scale the sums are divided by it as well, and if one is not finite, the update is
// skipped; sums and count start anew all the same. The parameters are inputs without defaults, so
// that the weights of the file that was differentiated never take the place of those that were
// trained.
func UpdateStep(j *Joint, o Optimizer) (*Joint, error) {
	if !j.Accumulates {
		return nil, errors.New("update step: the training graph has gradients and no sums of them; AppendOptimizer " +
			"appends its update")
	}
	if o.KeepGrads {
		return nil, errors.New("update step: gradients cannot be kept: the micro-steps have none but sums")
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	out, _, err := attempts(j.Model.OpsetVersion(""), func(version int64) (*Joint, error) {
		return updateStep(j, o, version)
	})
	return out, err
}

// updateStep makes one attempt, at a version of ONNX's operators.
func updateStep(of *Joint, o Optimizer, version int64) (out *Joint, err error) {
	defer func() {
		if thrown := caught(recover()); thrown != nil {
			out, err = nil, thrown
		}
	}()
	u := newStep(of, o, version, "update")
	u.tellHidden(of)
	u.importOwn(u.j.m)
	if u.j.types, err = op.NewExtender(u.j.m); err != nil {
		return nil, err
	}
	u.applySums(of)
	return u.finishStep()
}

// applySums emits the update of all parameters. Only one scaled sum is there at a time: the data
// that all share, their norm and whether they are finite, are computed beforehand.
func (u *updater) applySums(of *Joint) {
	count := u.newInput(CountInput, countType(of))
	total := count
	if u.Ranks.several() {
		if of.Weights.Weighing != Summed {
			total = u.newInput(TotalInput, countType(of))
		}
		u.Ranks.Zero = min(u.Ranks.Zero, 1) // the sums are whole
	}
	factor := u.meanFactor(of.Weights.Weighing, total, of.LossScale)
	for _, name := range of.Wrt {
		v, _ := of.Model.Graph.Lookup(name)
		t := of.Model.Graph.Values[v].Type
		u.params = append(u.params, u.newInput(name, t))
		t.DType = updateType(t.DType)
		u.grads = append(u.grads, u.newInput(name+SumSuffix, t))
	}
	u.join()
	if u.Ranks.several() {
		u.fillBuckets()
	}
	sums := u.grads
	u.isFinite(of.LossScale != "", factor)
	factor = u.clipped(factor)
	if u.Ranks.several() {
		u.shard()
	}
	u.rates()
	u.shareScalars()
	for i := range u.params {
		p, grad := u.taken(i)
		if u.packs(p) {
			u.next(of.Wrt[i]+SumSuffix, u.zerosAfter(grad, u.updatePacked(i, p, grad, factor)))
			continue
		}
		grad = u.scaled(grad, factor)
		if u.whole == nil {
			u.next(of.Wrt[i]+SumSuffix, u.zeros(grad))
		}
		u.update(i, p, grad)
	}
	u.finishGather()
	for i := range u.whole { // sums that are read in pieces
		u.next(of.Wrt[i]+SumSuffix, u.zeros(sums[i]))
	}
	u.next(CountInput, u.Sub(count, count))
}

// zeros replace a sum that a value is made of. They are chosen in place of the value's elements, which
// may be infinite, and so wait for it: a runtime with an order of its own can write them over the sum.
func (u *updater) zeros(made Value) Value {
	never := u.j.constant(&graph.TensorData{DType: graph.Bool, Dims: []int64{}, Source: graph.Raw{0}})
	return u.Where(never, made, u.Scalar(0, made))
}

// scaled is a sum times a factor.
func (u *updater) scaled(sum, factor Value) Value {
	return u.Mul(sum, u.Cast(factor, u.DType(sum)))
}

// isFinite finds out whether the scaled sums are finite, where there is a loss scale.
func (u *updater) isFinite(asked bool, factor Value) {
	if !asked {
		return
	}
	sum := None
	parts, disjoint := u.parts()
	for _, g := range parts {
		sum = u.plus(sum, u.zero(u.scaled(g(), factor)))
	}
	if disjoint {
		sum = u.ofAll(sum)
	}
	if u.buckets != nil && u.Guard && sum != None {
		sum = u.plus(sum, u.lossZero())
	}
	u.setFinite(sum)
}

// clipped is the factor that also bounds the norm of all scaled sums.
func (u *updater) clipped(factor Value) Value {
	if u.MaxNorm == 0 && !u.Guard || len(u.grads) == 0 {
		return factor
	}
	var squares []Value
	parts, disjoint := u.parts()
	for _, g := range parts {
		squares = append(squares, u.squares(u.scaled(g(), factor)))
	}
	if disjoint {
		squares = []Value{u.ofAll(u.Op("Sum", nil, squares...))}
	}
	bound := u.clipFactor(squares)
	if bound == None {
		return factor
	}
	return u.Mul(factor, u.Cast(bound, graph.Float64))
}

// newInput adds a graph input.
func (u *updater) newInput(name string, t graph.Type) Value {
	v, err := u.j.newState(name, t)
	u.must(err)
	return v
}

// result makes a value a graph output under a name.
func (u *updater) result(name string, v Value) {
	u.must(u.j.addOutput(name, v, "an output of the optimizer"))
}
