package autograd

import (
	"errors"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// UpdateStep makes the step that applies what micro-steps have accumulated (Options.Accumulate): it
// reads the parameters, the sums of their gradients and CountInput, updates the parameters as
// AppendOptimizer does with the sums divided by the count, and leaves sums and count at zero. So
// micro-steps of equally many samples, whose loss is a mean, and one update are a step of all samples
// together, within rounding. Means over the labels that are not ignored are weighted by micro-step,
// as in PyTorch: each counts the same, however many labels it has.
//
// With a loss scale the sums are divided by it as well, and if one is not finite, nothing is updated;
// sums and count start anew all the same. The parameters are inputs without defaults, so that the
// weights of the file that was differentiated never take the place of those that were trained.
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
	m := &graph.Model{Path: of.Model.Path + " (update)", IRVersion: max(of.Model.IRVersion, irVersion(version)),
		ProducerName: of.Model.ProducerName, ProducerVersion: of.Model.ProducerVersion,
		Opsets: []graph.Opset{{Version: version}}, Graph: graph.New(of.Model.Graph.Name+"_update", nil)}
	out = &Joint{Model: m, Wrt: of.Wrt, LossScale: of.LossScale, From: version, To: version}
	u := &updater{Optimizer: o, finite: None, bound: None,
		emitter: emitter{&joint{m: m, g: m.Graph, taken: graph.NewNames(m),
			constants: map[string]Value{}, out: out, base: "/update/", prefix: "/update/"}}}
	if u.j.types, err = op.NewExtender(m); err != nil {
		return nil, err
	}
	u.applySums(of)
	live.RecordStates(m, u.states)
	// All that waits for the count is the second half; nothing of it is a forward model's.
	b := live.Boundary{Kind: live.RecordedBoundary, Node: 0, Loss: m.Graph.Nodes[0].Output(0), Backward: 1}
	m.SetMeta(live.BoundaryKey, b.Record(m.Graph))
	out.Backward = b.Backward
	if err := graph.Verify(m); err != nil {
		return nil, err
	}
	out.Types, err = op.InferAsIs(m)
	return out, err
}

// applySums emits the update of all parameters. Only one scaled sum is there at a time: what all
// share, whether they are finite and their norm, is found beforehand.
func (u *updater) applySums(of *Joint) {
	count := u.newInput(CountInput, graph.Tensor(graph.Int64, graph.Dims()))
	factor := u.Div(u.double(1), u.Op("Max", nil, u.Cast(count, graph.Float64), u.double(1)))
	if of.LossScale != "" {
		scale := u.newInput(of.LossScale, graph.Tensor(graph.Float32, graph.Dims()))
		factor = u.Div(factor, u.Cast(scale, graph.Float64))
	}
	for _, name := range of.Wrt {
		v, _ := of.Model.Graph.Lookup(name)
		t := of.Model.Graph.Values[v].Type
		u.params = append(u.params, u.newInput(name, t))
		t.DType = updateType(t.DType)
		u.grads = append(u.grads, u.newInput(name+SumSuffix, t))
	}
	u.join()
	u.isFinite(of.LossScale != "", factor)
	factor = u.clipped(factor)
	u.rates()
	u.shareScalars()
	for i, p := range u.params {
		name := u.j.g.ValueName(p)
		u.j.prefix = u.j.base + name + "/"
		grad := u.scaled(u.grads[i], factor)
		u.next(name+SumSuffix, u.zeros(grad))
		u.update(i, p, grad)
	}
	u.j.prefix = u.j.base
	u.next(CountInput, u.Sub(count, count))
}

// zeros replace a sum of which a value is made. They are chosen in place of the value's elements, which
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
	for _, g := range u.grads {
		sum = u.plus(sum, u.nothing(u.scaled(g, factor)))
	}
	u.setFinite(sum)
}

// clipped is the factor that also bounds the norm of all scaled sums.
func (u *updater) clipped(factor Value) Value {
	if u.MaxNorm == 0 && !u.Guard || len(u.grads) == 0 {
		return factor
	}
	var squares []Value
	for _, g := range u.grads {
		squares = append(squares, u.squares(u.scaled(g, factor)))
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
