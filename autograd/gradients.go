package autograd

import (
	"errors"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	ortsim "memopt/sim/ort"
)

// ErrNoGradients means that a graph with a backward half makes no gradient of a parameter by its name.
var ErrNoGradients = errors.New("the graph makes no gradient of a parameter: for a float input or " +
	"initializer NAME of static shape, a value NAME" + GradSuffix + " of the same shape in its backward half")

// FromGradients returns the Joint of a graph that has a backward half already, so that
// AppendOptimizer can append its update: of ORTModule's graphs with a YieldOp, of files that
// Differentiate has made, and of onnxruntime-training's training_model.onnx. The model itself is not
// changed.
//
// The gradient of a parameter NAME, a float initializer or float input of static shape, is the value
// NAME_grad, be it an output or not. Nodes that only add gradients to buffers (InPlaceAccumulatorV2)
// are left out, together with the buffers. The nodes of the backward half come behind all others;
// those of a graph with a YieldOp are in ONNX Runtime's memory-efficient order, which its Memory
// Optimizer plans for, and the record of the boundary makes a planner keep to the file: appended
// updates have no place in that order. The loss becomes a graph output if it is not one, and running
// statistics that the graph updates become states (Options.Statistics).
//
// The error is live.ErrNoBoundary where there is no backward half, and ErrNoGradients where that
// makes no gradients, as that of a file whose optimizer is appended already.
func FromGradients(m *graph.Model) (*Joint, error) {
	r := &gradientReader{j: &Joint{Model: m.Clone(), plain: true}}
	r.g = r.j.Model.Graph
	from := r.j.Model.OpsetVersion("")
	r.j.From, r.j.To = from, from
	if err := r.infer(); err != nil {
		return nil, err
	}
	b, err := live.FindBoundary(r.j.Model)
	if err != nil {
		return nil, err
	}
	if err := r.arrange(b); err != nil {
		return nil, err
	}
	r.dropAccumulators()
	r.findGradients()
	if len(r.j.Wrt) == 0 {
		return nil, ErrNoGradients
	}
	if b, err = live.FindBoundary(r.j.Model); err != nil {
		return nil, err
	}
	if err := r.findLoss(b); err != nil {
		return nil, err
	}
	if err := r.keepStatistics(); err != nil {
		return nil, err
	}
	r.record(b)
	if err := graph.Verify(r.j.Model); err != nil {
		return nil, err
	}
	return r.j, r.infer()
}

// gradientReader determines the roles of values in a graph with gradients.
type gradientReader struct {
	j *Joint
	g *graph.Graph
}

func (r *gradientReader) infer() (err error) {
	r.j.Types, err = op.InferAsIs(r.j.Model)
	return err
}

// arrange puts the backward half behind everything else.
func (r *gradientReader) arrange(b live.Boundary) error {
	order, err := graph.Topological(r.g)
	if err != nil {
		return err
	}
	if b.Kind == live.YieldBoundary {
		order = ortsim.MemoryEfficientOrder(r.g, b.Node)
	}
	backward := live.Split(r.g, b, order)
	var nodes, behind []*graph.Node
	for _, id := range order {
		if backward[id] {
			behind = append(behind, r.g.Nodes[id])
		} else {
			nodes = append(nodes, r.g.Nodes[id])
		}
	}
	r.j.Backward = graph.NodeID(len(nodes))
	r.g.SetNodes(append(nodes, behind...))
	return nil
}

// isBackward reports whether a node of the backward half makes a value.
func (r *gradientReader) isBackward(v graph.ValueID) bool {
	def := r.g.Values[v].Def
	return def != graph.NoNode && def >= r.j.Backward
}

// dropAccumulators drops the backward nodes that update buffers in place and whose results have no
// readers, with the outputs that they make and the inputs that only they read.
func (r *gradientReader) dropAccumulators() {
	uses := graph.NewUses(r.g)
	dropped := make([]bool, len(r.g.Nodes))
	for _, n := range r.g.Nodes[r.j.Backward:] {
		dropped[n.ID] = len(op.Of(n.Kind).Mutates) > 0 && !slices.ContainsFunc(n.Outputs,
			func(v graph.ValueID) bool { return v != graph.NoValue && len(uses.Of(v)) > 0 })
	}
	if !slices.Contains(dropped, true) {
		return
	}
	of := func(v graph.ValueID) bool { def := r.g.Values[v].Def; return def != graph.NoNode && dropped[def] }
	r.g.Outputs = slices.DeleteFunc(r.g.Outputs, func(d graph.Decl) bool { return of(d.Value) })
	idle := func(d graph.Decl) bool {
		readers := uses.Of(d.Value)
		return len(readers) > 0 && !slices.ContainsFunc(readers, func(u graph.Use) bool { return !dropped[u.Node] })
	}
	r.g.Inputs = slices.DeleteFunc(r.g.Inputs, func(d graph.Decl) bool {
		if idle(d) {
			r.g.Values[d.Value].Input = false
			return true
		}
		return false
	})
	var nodes []*graph.Node
	for _, n := range r.g.Nodes {
		if !dropped[n.ID] {
			nodes = append(nodes, n)
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				r.g.Values[v].Output, r.g.Values[v].Def = false, graph.NoNode
			}
		}
	}
	r.g.SetNodes(nodes)
}

// findGradients lists the parameters that have gradients, in the order of the file.
func (r *gradientReader) findGradients() {
	seen := make([]bool, len(r.g.Values))
	try := func(v graph.ValueID) {
		if seen[v] {
			return
		}
		seen[v] = true
		grad, ok := r.g.Lookup(r.g.ValueName(v) + GradSuffix)
		if ok && r.isBackward(grad) && r.isParameter(v) && r.mayBeGradient(grad, v) {
			r.j.Wrt = append(r.j.Wrt, r.g.ValueName(v))
		}
	}
	for _, d := range r.g.Inputs {
		try(d.Value)
	}
	for _, v := range r.g.Initializers {
		try(v)
	}
}

// isParameter reports whether a value is a float initializer, or input of static shape.
func (r *gradientReader) isParameter(v graph.ValueID) bool {
	t := r.g.Values[v].Type
	_, static := t.Shape.Elements().Const()
	return t.Form == graph.FormTensor && t.DType.IsFloat() && t.Shape.Ranked && static
}

// mayBeGradient reports whether a value is a float tensor whose dims do not rule it out as the
// gradient of another.
func (r *gradientReader) mayBeGradient(grad, of graph.ValueID) bool {
	t, want := r.g.Values[grad].Type, r.g.Values[of].Type.Shape
	if t.Form != graph.FormTensor || !t.DType.IsFloat() {
		return false
	}
	if !t.Shape.Ranked {
		return true
	}
	if t.Shape.Rank() != want.Rank() {
		return false
	}
	for i, d := range t.Shape.Dims {
		n, known := d.Const()
		if w, _ := want.Dims[i].Const(); known && n != w {
			return false
		}
	}
	return true
}

// findLoss determines the loss, and the source of its gradient.
func (r *gradientReader) findLoss(b live.Boundary) error {
	if b.Kind == live.YieldBoundary {
		return r.yieldLoss(r.g.Nodes[b.Node])
	}
	r.j.Loss = r.g.ValueName(b.Loss)
	if seed, ok := r.g.Lookup(r.j.Loss + SeedSuffix); ok && r.g.Values[seed].Input {
		r.j.LossGrad = r.g.ValueName(seed)
	}
	return outputLoss(r.g, b.Loss)
}

// yieldLoss takes as the loss the scalar float that a YieldOp hands out and whose gradient it gets
// back; of several the first. The other gradients that it gets back are noted.
func (r *gradientReader) yieldLoss(n *graph.Node) error {
	fixed, out := n.IntList("non_differentiable_outputs", nil), 0
	loss := graph.NoValue
	for i, v := range n.Inputs {
		if slices.Contains(fixed, int64(i)) {
			continue
		}
		grad := n.Output(out)
		if out++; grad == graph.NoValue {
			continue
		}
		t := r.g.Values[v].Type
		elements, _ := t.Shape.Elements().Const()
		if loss == graph.NoValue && t.DType.IsFloat() && elements == 1 {
			loss, r.j.Loss, r.j.LossGrad = v, r.g.ValueName(v), r.g.ValueName(grad)
			continue
		}
		r.j.OtherGrads = append(r.j.OtherGrads, r.g.ValueName(grad))
	}
	if loss == graph.NoValue {
		return nil // it is computed outside
	}
	return outputLoss(r.g, loss)
}

// keepStatistics makes running statistics that the file updates and drops states of the step.
func (r *gradientReader) keepStatistics() error {
	types, err := op.NewExtender(r.j.Model)
	if err != nil {
		return err
	}
	j := &joint{m: r.j.Model, g: r.g, types: types, out: r.j, taken: graph.NewNames(r.j.Model)}
	return j.keepStatistics(graph.FileOrder(r.g))
}

// outputLoss makes a loss a graph output.
func outputLoss(g *graph.Graph, loss graph.ValueID) error {
	if g.Values[loss].Output {
		return nil
	}
	return g.AddOutput(graph.Decl{Value: loss, Type: g.Values[loss].Type})
}

// record notes where the halves meet: that of a graph without a YieldOp is found by its outputs, and
// an update changes these.
func (r *gradientReader) record(b live.Boundary) {
	if b.Kind != live.YieldBoundary {
		b.Kind, b.Backward = live.RecordedBoundary, graph.NoNode
		if r.alone(r.g.NodeLabel(r.j.Backward)) {
			b.Backward = r.j.Backward
		}
	}
	r.j.Model.SetMeta(live.BoundaryKey, b.Record(r.g))
}

// alone reports whether only one node has a label.
func (r *gradientReader) alone(label string) bool {
	count := 0
	for i := range r.g.Nodes {
		if r.g.NodeLabel(graph.NodeID(i)) == label {
			count++
		}
	}
	return count == 1
}
