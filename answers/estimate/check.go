package estimate

import (
	"context"
	"fmt"
	"time"

	"memopt"
	"memopt/configs"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/precision"
)

// Line is a figure that was predicted before a step ran, and its measured value.
type Line struct {
	What      string // "arena"
	Step      string // which of the executed steps: "step", "update", "planned"
	Predicted int64
	Measured  int64
	// Info marks a figure that is shown for information: the memory of subgraphs and of values whose
	// size depends on data, and the growth of the process, whose memory holds more than the arena.
	Info bool
}

// Off is by how much more was measured than predicted, in bytes.
func (l *Line) Off() int64 { return l.Measured - l.Predicted }

// Ledger compares the predictions for a step with a run on this machine's CPU.
type Ledger struct {
	Result *Result // the estimate that was checked, for the CPU
	Lines  []Line
}

// Above reports whether a run took more than was predicted of it.
func (l *Ledger) Above() bool {
	for i := range l.Lines {
		if line := &l.Lines[i]; !line.Info && line.Off() > 0 {
			return true
		}
	}
	return false
}

// Exact reports whether every figure that is no information was predicted to the byte.
func (l *Ledger) Exact() bool {
	for i := range l.Lines {
		if line := &l.Lines[i]; !line.Info && line.Off() != 0 {
			return false
		}
	}
	return true
}

// Check estimates a step for the CPU of this machine and executes it there, with values that are made
// up from the seed: the unchanged step, the update if gradients are accumulated, and the step with
// the plan if the estimate has one. It ignores Options.Device. The errors are those of Make and of
// executing the step; a precision other than AsIs cannot be executed and is one, too.
func Check(ctx context.Context, m *memopt.Model, o Options) (*Ledger, error) {
	if o.Precision != precision.AsIs {
		return nil, &memopt.Error{Fault: memopt.OfCaller, Err: fmt.Errorf("%s: as if in %s, a step cannot be "+
			"executed: leave out the precision", m.Path, o.Precision)}
	}
	device, err := configs.LoadDevice(cpuProfile)
	if err != nil {
		return nil, err
	}
	o.Device, o.Advise, o.Recipe.Optimizer.Guard = device, false, false
	s, err := newStep(m, o)
	if err != nil {
		return nil, err
	}
	r := s.describe()
	if r.Plain, err = s.outcome(ctx, nil); err != nil {
		return nil, err
	}
	r.countParameters(s)
	fits, known := r.Fits()
	if known && fits {
		r.Planned = r.Plain
	} else if known {
		if err := s.plan(ctx, r); err != nil {
			return nil, err
		}
	}
	l := &Ledger{Result: r}
	for i, p := range r.Plain.Plans {
		if err := l.run(ctx, s, p, p.Execution(), stepNames[i]); err != nil {
			return nil, err
		}
	}
	if r.Planned == nil || r.Planned == r.Plain {
		return l, nil
	}
	p := r.Planned.Plans[0]
	rewritten, err := p.Rewrite(memopt.RewriteOptions{Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	x, err := rewritten.Execution()
	if err != nil {
		return nil, err
	}
	return l, l.run(ctx, s, p, x, "planned")
}

// stepNames are the names of the models of a step.
var stepNames = [...]string{"step", "update"}

// run executes a planned step twice and adds the measurements. The first run produces the initial
// states of the second.
func (l *Ledger) run(ctx context.Context, s *step, p *memopt.Plan, x *memopt.Execution, name string) error {
	if err := x.Fill(uint64(s.opts.Seed) + 1); err != nil {
		return err
	}
	phases := newPhaseObserver(p, x)
	sizes, err := live.EvalSizes(x.Planned.Model.Graph, p.Options.Dims)
	if err != nil {
		return err
	}
	phases.inner = sizes.Inner
	r, err := x.Run(ctx, verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 1,
		Session: executor.Options{Threads: s.opts.Threads, Observer: phases}})
	if err != nil {
		return err
	}
	add := func(what string, predicted, measured int64, info bool) {
		l.Lines = append(l.Lines, Line{what, name, predicted, measured, info})
	}
	add("held throughout", p.Persistent, heldBytes(p, x), false)
	for ph, phase := range phaseNames {
		if m := &p.After.Phases[ph]; m.Step >= 0 {
			parts := m.Parts
			add("live, "+phase, parts.Sum()-p.Persistent, phases.peaks[ph], false)
		}
	}
	copies, err := p.Copies(ctx, s.opts.Moves.Link)
	if err != nil {
		return err
	}
	if copies != nil {
		add("on the host", copies.Arena, r.Measured.Host, false)
	}
	inside := p.Planned.Inside // the executor takes as much of it as it needs, when it does
	add("arena", p.Arena.Bytes, r.Measured.Arena+inside, false)
	add("total", p.Persistent+p.Arena.Bytes, heldBytes(p, x)+r.Measured.Arena+inside, false)
	if inside > 0 || r.Measured.Dynamic > 0 {
		add("inside subgraphs", inside, r.Measured.Dynamic, true)
	}
	if r.Resident > 0 {
		add("growth of the process", p.Arena.Bytes, r.Resident, true)
	}
	return nil
}

// phaseNames are those of live.Phase.
var phaseNames = [live.NumPhases]string{"forward", "backward", "update"}

// phaseObserver notes the most that was live in each phase.
type phaseObserver struct {
	phase []live.Phase // by node of the executed graph
	inner []int64      // by executed node: bytes that are planned inside its subgraphs; nil without any
	peaks [live.NumPhases]int64
}

// newPhaseObserver returns the observer of an execution of a plan.
func newPhaseObserver(p *memopt.Plan, x *memopt.Execution) *phaseObserver {
	a := p.Analysis
	roles := live.FindRoles(a.Graph, p.Sizes.States, a.Backward, a.Order)
	phase := func(n graph.NodeID, clone bool) live.Phase {
		switch {
		case roles.Update[n] && a.Backward[n]:
			return live.UpdatePhase
		case a.Backward[n] || clone:
			return live.BackwardPhase
		}
		return live.ForwardPhase
	}
	o := &phaseObserver{phase: make([]live.Phase, len(x.Planned.Model.Graph.Nodes))}
	if x.Rewritten == nil {
		for n := range o.phase {
			o.phase[n] = phase(graph.NodeID(n), false)
		}
		return o
	}
	seen := make([]bool, len(a.Graph.Nodes))
	for n, origin := range x.Rewritten.Origin {
		if origin == graph.NoNode { // nodes that a rewrite adds besides clones belong to these
			o.phase[n] = live.BackwardPhase
			continue
		}
		o.phase[n], seen[origin] = phase(origin, seen[origin]), true
	}
	return o
}

// Node notes the live bytes while a node ran.
func (o *phaseObserver) Node(_ int, id graph.NodeID, _ time.Time, _ time.Duration, bytes int64) {
	if o.inner != nil {
		bytes += o.inner[id]
	}
	ph := o.phase[id]
	o.peaks[ph] = max(o.peaks[ph], bytes)
}

// heldBytes are the bytes of an execution's input tensors that the model has, which live throughout.
func heldBytes(p *memopt.Plan, x *memopt.Execution) (n int64) {
	g := x.Of.Graph
	for i := range g.Values {
		v := graph.ValueID(i)
		val := &g.Values[i]
		switch t := x.Inputs[g.ValueName(v)]; {
		case !stays(g, v):
		case t != nil:
			n += int64(len(t.Data))
		case val.Data != nil:
			if raw, err := val.Data.Source.Bytes(); err == nil {
				n += int64(len(raw))
			}
		default: // made by a node of the model's, once
			n += max(p.Sizes.Bytes[v], 0)
		}
	}
	return n
}
