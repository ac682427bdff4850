package executor

import (
	"context"
	"fmt"
	"time"

	"memopt/graph"
	"memopt/graph/op"
)

// frame is a graph made ready to run: the main graph, or the subgraph of a control-flow node.
type frame struct {
	s       *Session
	g       *graph.Graph
	steps   []step
	vals    []*Tensor // by value; captured values share the enclosing frame's
	shapes  [][]int   // by value: as planned; nil where not known
	mutable []bool    // by value: whether an operator updates it, it is a state, or a store has it
	step    uint64    // of training, for random draws
	stepAt  []byte    // memory of the device that holds step while a step is captured; nil at other times
	flags   *Flags    // of the step that is being captured; nil at other times
	task    fusionTask

	space  space        // where the frame's values live
	mem    DeviceMemory // of the space
	shares shares       // of memory taken on demand

	layout
	ran            int   // steps that this run has begun
	live, livePeak int64 // bytes live now, and at most in this run
	high           int64 // end of the highest planned buffer that a kernel was given
}

// step is one node made ready to run.
type step struct {
	f      *frame
	node   *graph.Node
	prep   *Prep
	kernel Kernel // nil for a constant, whose output already exists
	ctx    *Ctx
	in     []*Tensor
	out    []*Tensor
	fused  int             // how many steps from this one on run block by block; 0 or 1: this one alone
	part   Beginner        // the step's part in a device's fusion group; nil elsewhere
	work   FusionGroup     // of a device's fusion group whose first step this is; nil elsewhere
	ends   []graph.ValueID // roots whose memory ends with this step
	// watched are the outputs, by slot, that must be finite.
	watched []int

	planned     workspace
	workspace   []byte
	scratchUsed int64
	scratchLive int64    // the planned workspace in use, which counts as live
	live        int64    // bytes live in the frame while a fusion group's step ran
	extra       [][]byte // workspace taken on demand
	besideExtra [][]byte // the same, of nodes with operands whose size depends on data

	crossing
}

// workspace is where the workspace of a step is planned.
type workspace struct {
	value  graph.ValueID // that stands for it in the program of the memory model
	offset int64         // in the planned block; -1 means taken on demand
	size   int64         // 0 means no workspace
}

// newFrame makes the frame of the main graph, or of a subgraph that a step of the frame outer runs.
// Subgraphs run on the host.
func newFrame(s *Session, g *graph.Graph, outer *frame, owner *step) *frame {
	n := len(g.Values)
	f := &frame{
		s: s, g: g, shares: s.shares,
		vals: make([]*Tensor, n), shapes: make([][]int, n), mutable: make([]bool, n),
	}
	for _, n := range g.Nodes {
		for _, slot := range op.Of(n.Kind).Mutates {
			if v := n.Input(slot); v != graph.NoValue {
				f.mutable[v] = true
			}
		}
	}
	if outer == nil {
		for _, st := range s.states.pairs {
			f.mutable[st.In] = true
		}
		for v, stored := range s.states.stored {
			f.mutable[v] = f.mutable[v] || stored
		}
	}
	for i := range g.Values {
		if o := g.Values[i].Outer; o != graph.NoValue && outer != nil {
			f.vals[i] = outer.space.captured(owner, o)
			continue
		}
		f.vals[i] = &Tensor{DType: g.Values[i].Type.DType}
	}
	if outer != nil {
		// The memory of subgraphs is not planned.
		f.shares = shares{planned: s.shares.host, beside: s.shares.host, host: s.shares.host}
	}
	f.space, f.mem = s.newSpace(f, outer != nil)
	return f
}

// makeSteps makes a kernel for every node.
func (f *frame) makeSteps(order graph.Order) error {
	f.steps = make([]step, len(order))
	for i, id := range order {
		if err := f.makeStep(&f.steps[i], id); err != nil {
			return err
		}
	}
	return nil
}

func (f *frame) makeStep(st *step, id graph.NodeID) error {
	n := f.g.Nodes[id]
	info := op.Of(n.Kind)
	p := &Prep{Node: n, Label: f.g.NodeLabel(id), Info: info, Seed: f.seedOf(n), Threads: f.s.pool.Threads(),
		Ranks:   f.s.opts.Ranks,
		Version: info.VersionOf(n, graph.OpsetVersion(f.s.model.Opsets, info.Domain))}
	*st = step{f: f, node: n, prep: p}
	for _, v := range n.Inputs {
		st.in, p.In = f.operand(st.in, p.In, v)
	}
	for _, v := range n.Outputs {
		st.out, p.Out = f.operand(st.out, p.Out, v)
		var shape []int
		if v != graph.NoValue {
			shape = f.shapes[v]
		}
		p.Shapes = append(p.Shapes, shape)
	}
	if fault := n.Fault(); fault != nil {
		return &Unsupported{fault}
	}
	if clash := n.Clash(); clash != nil {
		return clash
	}
	if p.Version == 0 && n.Kind != op.Unknown {
		// Only if files are read strictly: otherwise op.InferAsIs has given the node a version.
		// Nothing has been checked about such a node.
		return &Unsupported{fmt.Errorf(
			"node %q (%s): the model imports no operator set that has it; it came with %d",
			p.Label, n.Op, info.Since[0])}
	}
	if err := f.checkTypes(st); err != nil {
		return err
	}
	if err := f.makeKernel(st); err != nil {
		return err
	}
	var mem Memorizer = st
	if st.hostWhy != "" {
		mem = hostRun{st}
	}
	st.ctx = NewCtx(p, f.s.pool, mem, st.in, st.out)
	return nil
}

// makeKernel makes a step's kernel: the session's own for a boundary and for control flow, unless
// there are no data to tell which subgraph runs, or how often.
func (f *frame) makeKernel(st *step) (err error) {
	info := st.prep.Info
	switch {
	case info.Has(op.Yield):
		if st.kernel, err = newYield(f, st); err == nil {
			f.space.assignOwn(st, "")
		}
	case info.Transfer != op.NoTransfer && !f.s.virtual:
		if st.kernel, err = newTransfer(f, st); err == nil {
			f.space.assignOwn(st, "")
		}
	case info.Control != op.NoControl && !f.s.virtual:
		if st.kernel, err = newControl(f, st); err == nil {
			f.space.assignOwn(st, hostControl)
		}
	default:
		err = f.space.assign(st)
	}
	return err
}

func (f *frame) operand(ts []*Tensor, ds []graph.DType, v graph.ValueID) ([]*Tensor, []graph.DType) {
	if v == graph.NoValue {
		return append(ts, nil), append(ds, graph.Undefined)
	}
	return append(ts, f.vals[v]), append(ds, f.vals[v].DType)
}

// checkTypes rejects operands that no device computes on: those that are not tensors, or of an
// unknown type.
func (f *frame) checkTypes(st *step) error {
	for _, list := range [][]graph.ValueID{st.node.Inputs, st.node.Outputs} {
		for _, v := range list {
			if v == graph.NoValue {
				continue
			}
			val := &f.g.Values[v]
			t := val.Type
			if val.Outer != graph.NoValue {
				t.DType, t.Form = f.vals[v].DType, graph.FormTensor
			}
			switch {
			case t.Form != graph.FormTensor && t.Form != graph.FormUnknown:
				return st.prep.Unsupported("value %q is %v; the executor has tensors only", val.Name, t)
			case t.DType == graph.Undefined:
				return st.prep.Unsupported("the element type of value %q is unknown", val.Name)
			case t.DType == graph.String:
				return st.prep.Unsupported("value %q has strings; the executor has numbers and bools only", val.Name)
			}
		}
	}
	return nil
}

// seedOf returns the seed of a random node without a seed attribute. A node that computes a part of
// another draws from the seed of the whole.
func (f *frame) seedOf(n *graph.Node) uint64 {
	name := f.g.ValueName(n.Output(0))
	if part, _, err := op.DrawsOf(n); err == nil && part.Of != "" { // kernels' makers report the error
		name = part.Of
	}
	return nodeSeed(f.s.opts.Seed, name)
}

// nodeSeed mixes a session's seed with the name of a random node's output: FNV-1a.
func nodeSeed(seed uint64, name string) uint64 {
	h := uint64(14695981039346656037) ^ seed
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// run executes the steps in order.
func (f *frame) run(ctx context.Context) error {
	f.live, f.livePeak, f.high = 0, 0, 0
	for i := 0; i < len(f.steps); {
		if f == f.s.root && i > f.s.states.first {
			ctx = context.Background() // a step that has begun to write its states is finished
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		st := &f.steps[i]
		if f.ran = i; st.fused > 1 {
			f.ran += st.fused - 1
			n, err := f.runGroup(i, f.steps[i:i+st.fused])
			if err != nil {
				return err
			}
			if i += n; n > 0 {
				continue
			}
		}
		if st.kernel != nil {
			if err := f.runStep(ctx, i, st); err != nil {
				return err
			}
		}
		i++
	}
	return nil
}

func (f *frame) runStep(ctx context.Context, i int, st *step) error {
	obs := f.observer()
	var start time.Time
	if obs != nil {
		start = time.Now()
	}
	st.ctx.Step, st.ctx.StepAt, st.ctx.Flags = f.step, f.stepAt, f.flags
	st.ctx.Context = ctx
	err := st.takeScratch()
	if err == nil && f.s.inFiles > 0 {
		err = st.checkFiles()
	}
	if err == nil {
		err = st.named(f.space.fetch(st))
	}
	if err == nil {
		err = Invoke(st.kernel, st.ctx)
	}
	st.ctx.Context = nil
	if err == nil {
		err = st.named(f.space.store(st))
	}
	if err == nil {
		err = st.check()
	}
	if err == nil && len(st.watched) > 0 {
		err = st.checkFinite()
	}
	if err == nil && len(st.fetches) > 0 {
		err = st.named(st.fetchOutputs())
	}
	if err == nil && (obs != nil || f.s.opts.Blocking && !f.s.captured.now) {
		err = st.named(f.mem.Sync()) // the time is that of the work, not that of the request for it
	}
	if err == nil && f.s.opts.Probe != nil {
		err = st.named(f.probe(st))
	}
	if obs != nil {
		obs.Node(i, st.node.ID, start, time.Since(start), f.live)
	}
	f.finish(st)
	return err
}

// named puts the node's name in front of an error.
func (st *step) named(err error) error {
	if err == nil {
		return nil
	}
	return st.prep.named(err)
}

// probe shows the outputs of a step, but for copies that may be under way.
func (f *frame) probe(st *step) error {
	for slot, v := range st.node.Outputs {
		if v == graph.NoValue || f != f.s.root || st.begins() || f.hostRoot(v) != graph.NoValue {
			continue
		}
		t := st.out[slot]
		if st.hostWhy == "" {
			data, err := f.space.readable(t.Data)
			if err != nil {
				return err
			}
			t = &Tensor{DType: t.DType, Shape: t.Shape, Data: data}
		}
		f.s.opts.Probe(v, t)
	}
	return nil
}

// finish frees the values that die with a step.
func (f *frame) finish(st *step) {
	f.settle(st)
	st.freeExtra()
	for _, v := range st.ends {
		f.drop(v)
	}
}

// settle subtracts the values that die with a step from the live bytes.
func (f *frame) settle(st *step) {
	f.live -= st.scratchLive
	st.scratchLive = 0
	for _, v := range st.ends {
		if f.hostRoot(v) == v {
			f.s.host.live -= f.held[v]
		} else {
			f.live -= f.held[v]
		}
		f.held[v] = 0
	}
}

// check compares the outputs' shapes with the planned ones, and looks at the guards.
func (st *step) check() error {
	for slot, v := range st.node.Outputs {
		if v == graph.NoValue {
			continue
		}
		if want := st.f.shapes[v]; want != nil && !equalShapes(want, st.out[slot].Shape) {
			return st.mismatch(slot, want)
		}
	}
	if st.f.s.opts.Guard {
		return st.checkGuards()
	}
	return nil
}

// mismatch is the error of a run with another shape than the plan assumed.
func (st *step) mismatch(slot int, want []int) error {
	t := st.out[slot]
	return &ShapeError{st.prep.Errorf("output %d (%q) is %v at run time; the model's declared shapes and dims say "+
		"%v: correct the declared shapes, or the data they depend on",
		slot, st.f.g.ValueName(st.node.Outputs[slot]), t, &Tensor{DType: t.DType, Shape: want})}
}

// ShapeError is the error of data that contradict the planned shapes of a session.
type ShapeError struct{ Err error }

func (e *ShapeError) Error() string { return e.Err.Error() }
func (e *ShapeError) Unwrap() error { return e.Err }

// describe names a value with its size.
func (f *frame) describe(v graph.ValueID, n int64) string {
	return fmt.Sprintf("%q (%d bytes)", f.g.ValueName(v), n)
}
