package autograd

import (
	"errors"
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// CombineStep makes the step of each of several ranks between the last micro-step and the update: it
// adds up over the ranks, in place, the sums of gradients that each has accumulated (Options.Accumulate).
// CountsInput says which ranks have accumulated any.
func CombineStep(j *Joint, r Ranks) (*Joint, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if !j.Accumulates || !r.several() {
		return nil, errors.New("combine step: wanted a training graph that accumulates gradients, and several ranks")
	}
	out, _, err := attempts(j.Model.OpsetVersion(""), func(version int64) (*Joint, error) {
		return combineStep(j, r, version)
	})
	return out, err
}

// combineStep makes one attempt, at a version of ONNX's operators.
func combineStep(of *Joint, r Ranks, version int64) (out *Joint, err error) {
	defer func() {
		if thrown := caught(recover()); thrown != nil {
			out, err = nil, thrown
		}
	}()
	u := newStep(of, Optimizer{Ranks: r}, version, "combine")
	u.importOwn(u.j.m)
	if u.j.types, err = op.NewExtender(u.j.m); err != nil {
		return nil, err
	}
	u.addRanks()
	var begun []Value
	for _, name := range of.Wrt {
		v, _ := of.Model.Graph.Lookup(name)
		t := of.Model.Graph.Values[v].Type
		t.DType = updateType(t.DType)
		u.j.prefix = u.j.base + name + "/"
		sum := u.newInput(name+SumSuffix, t)
		begun = append(begun, u.rankOp("AllReduceStart", "", sum, u.counts))
	}
	for i, name := range of.Wrt {
		u.j.prefix = u.j.base + name + "/"
		u.next(name+SumSuffix, u.Own("CollectiveWait", "", nil, begun[i]))
	}
	return u.finishStep()
}

// newStep begins a step of a job beside that which makes gradients.
func newStep(of *Joint, o Optimizer, version int64, name string) *updater {
	m := &graph.Model{Path: fmt.Sprintf("%s (%s)", of.Model.Path, name),
		IRVersion:    max(of.Model.IRVersion, irVersion(version)),
		ProducerName: of.Model.ProducerName, ProducerVersion: of.Model.ProducerVersion,
		Opsets: []graph.Opset{{Version: version}}, Graph: graph.New(of.Model.Graph.Name+"_"+name, nil)}
	out := &Joint{Model: m, Wrt: of.Wrt, LossScale: of.LossScale, From: version, To: version}
	base := "/" + name + "/"
	return &updater{Optimizer: o, finite: None, bound: None,
		emitter: emitter{&joint{m: m, g: m.Graph, taken: graph.NewNames(m),
			constants: map[string]Value{}, out: out, base: base, prefix: base}}}
}

// finishStep completes a step that newStep has begun. All of it but the first node is the second half;
// no node of it is a forward model's.
func (u *updater) finishStep() (*Joint, error) {
	m, out := u.j.m, u.j.out
	live.RecordStates(m, u.states)
	if err := op.Define(m); err != nil {
		return nil, err
	}
	b := live.Boundary{Kind: live.RecordedBoundary, Node: 0, Loss: m.Graph.Nodes[0].Output(0), Backward: 1}
	m.SetMeta(live.BoundaryKey, b.Record(m.Graph))
	out.Backward = b.Backward
	if err := graph.Verify(m); err != nil {
		return nil, err
	}
	var err error
	out.Types, err = op.InferAsIs(m)
	return out, err
}
