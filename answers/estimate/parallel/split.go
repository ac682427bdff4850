package parallel

import (
	"context"
	"fmt"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/graph"
	"memopt/graph/live"
)

// Options of Split.
type Options struct {
	// Cost is the cost of one element of a parameter of a type throughout a step. nil means the
	// graph's own types, with gradients in float32 for parameters of 16 bits, and no optimizer.
	Cost func(graph.DType) parts.PerParameter
	// Memory is the bytes of a device, and Reserve those that no step can have. Memory 0 means that it
	// is unknown, and that no plans are made.
	Memory, Reserve int64
	// Plan has the planner's options; its strategy is chosen here.
	Plan memopt.PlanOptions
	// Search is how the planner searches for a plan to a stage's budget; Share and Total are set here.
	Search memopt.Budget
}

// Result is the memory of a layout on each of its devices.
type Result struct {
	Layout  Layout
	Options Options
	Cuts    string       // the source of the cuts into stages
	Weights []WeightRule // how tensor parallel divides parameters
	Rule    string       // of the division: Megatron's, or the file's annotations
	Stages  []Stage      // by device of the pipeline
	// Parameters is how many numbers are trained, those of all devices of a replica.
	Parameters int64
	// Limiting is the stage with the most bytes, with their plans if there are some.
	Limiting int
}

// Stage is the memory of each device of one stage of the pipeline.
type Stage struct {
	Stage  int
	Chunks []Chunk
	// InFlight is how many micro-batches of a chunk wait at most, the running one included: divided by
	// Interleave, micro-batches of all layers of the device.
	InFlight int
	Seconds  float64            // of one micro-batch, forward and backward, without communication
	Params   int64              // numbers on the device: divided by tensor parallel, not yet by ZeRO
	States   parts.PerParameter // bytes of these, before ZeRO divides them
	// Constants are the bytes of constants and statistics.
	Constants int64
	// Gathered is the bytes that ZeRO 3 gathers: the weights of the largest layer, twice.
	Gathered int64
	// Gather is the largest input, in bytes, that a node reads whole although it lies divided along
	// the sequence.
	Gather int64
	Parts  parts.Parts // at the worst moment, without a plan
	load   load
	// Budget is the remaining bytes of the device's memory for the arena of one micro-batch. It and
	// Plan are set if Options.Memory is.
	Budget int64
	Plan   *StagePlan // nil if no plan was needed
}

// Chunk is a run of layers on a device.
type Chunk struct {
	Name   string
	Node   string // where it is at its worst
	Nodes  int
	Inputs int64 // bytes of its data and of received values
	Usage
	model     *chunk
	constants int64
}

// Usage is the memory of one micro-batch of a chunk.
type Usage struct {
	Stash int64      // bytes held between its halves
	Peak  int64      // bytes of the arena
	parts live.Parts // of the arena at its worst, among others
}

// StagePlan is the plan of a stage.
type StagePlan struct {
	Fits     bool
	Total    int64 // of the device with the plan
	Parts    parts.Parts
	Overhead float64 // of a micro-batch's time
	Nodes    int     // recomputed
}

// Split computes the memory of a micro-step on the devices of a layout. step is not changed; params
// names its parameters. The error is a *LayoutError for a contradictory layout, a *StageError or a
// *ShardError if the model cannot be divided so, a *symbolic.UnboundError for unbound sizes, or an
// error of the planner.
func Split(ctx context.Context, step *memopt.Model, params []string, l Layout, o Options) (*Result, error) {
	if err := l.Check(); err != nil {
		return nil, &LayoutError{err}
	}
	l = l.WithDefaults()
	if o.Cost == nil {
		o.Cost = asTheGraph
	}
	if _, err := live.EvalSizes(step.Graph, step.Dims); err != nil {
		return nil, err
	}
	plain, err := step.Plan(ctx, nil, o.Plan)
	if err != nil {
		return nil, err
	}
	s := &splitter{ctx: ctx, layout: l, opts: o, whole: plain, step: clone(step)}
	if err := s.divide(params); err != nil {
		return nil, err
	}
	return s.run()
}

// asTheGraph is the cost of a parameter as the graph has it.
func asTheGraph(d graph.DType) parts.PerParameter {
	bytes := int64(d.Bits()) / 8
	return parts.PerParameter{Weight: bytes, Gradient: max(bytes, 4)}
}

// LayoutError is a contradictory layout.
type LayoutError struct{ Err error }

func (e *LayoutError) Error() string { return e.Err.Error() }

func (e *LayoutError) Unwrap() error { return e.Err }

// clone copies a model whose types will be edited.
func clone(m *memopt.Model) *memopt.Model {
	c := *m
	c.Model = m.Model.Clone()
	return &c
}

// splitter is the state of one Split.
type splitter struct {
	ctx    context.Context
	layout Layout
	opts   Options
	whole  *memopt.Plan // of the micro-step on one device
	step   *memopt.Model
	div    *divider
	out    *Result
}

// divide divides values by tensor parallel.
func (s *splitter) divide(params []string) error {
	g := s.step.Graph
	sg := &stepGraph{g: g, opsets: s.step.Opsets, env: s.step.Dims, backward: s.whole.Analysis.Backward,
		states: s.whole.Sizes.States}
	for _, name := range params {
		if v, ok := g.Lookup(name); ok {
			sg.params = append(sg.params, v)
		}
	}
	s.div = newDivider(sg, s.layout)
	s.out = &Result{Layout: s.layout, Options: s.opts}
	for _, v := range sg.params {
		n := int64(1)
		for _, d := range s.div.dims[v] {
			n *= d
		}
		s.out.Parameters += n
	}
	if s.layout.TP == 1 && s.layout.PP == 1 {
		return nil
	}
	if err := graph.CheckDevices(s.step.Model); err != nil {
		return &ShardError{err}
	}
	if s.layout.TP == 1 {
		return nil
	}
	s.out.Rule = "Megatron's rule"
	annotated, err := s.div.annotations()
	if err != nil {
		return err
	}
	if annotated {
		s.out.Rule = "the file's shardings (IR version 11)"
	}
	if err := s.div.run(s.whole.Analysis.Order); err != nil {
		return err
	}
	s.out.Weights = s.div.weightRules()
	return nil
}

func (s *splitter) run() (*Result, error) {
	l, order := s.layout, s.whole.Analysis.Order
	st, err := cutStages(s.div, order, s.whole.NodeSeconds(), l.PP*l.Interleave)
	if err != nil {
		return nil, err
	}
	s.out.Cuts = st.source
	s.div.apply()
	chunks := make([]Chunk, l.PP*l.Interleave)
	var x *extractor
	if len(chunks) > 1 {
		if x, err = newExtractor(s.step, s.div, order, st); err != nil {
			return nil, err
		}
	}
	for k := range chunks {
		if chunks[k], err = s.chunk(x, st, k); err != nil {
			return nil, err
		}
	}
	for i := range l.PP {
		stage := Stage{Stage: i}
		for c := range l.Interleave {
			k := c*l.PP + i
			stage.Chunks = append(stage.Chunks, chunks[k])
			stage.Seconds += st.costs[k]
		}
		s.account(&stage)
		s.out.Stages = append(s.out.Stages, stage)
	}
	return s.out, s.plan()
}

// chunk measures a chunk.
func (s *splitter) chunk(x *extractor, st *stages, k int) (Chunk, error) {
	c := &chunk{model: s.step}
	if x != nil {
		var err error
		if c, err = x.extract(k); err != nil {
			return Chunk{}, err
		}
	} else {
		for _, n := range s.step.Graph.Nodes {
			if !s.div.back[n.ID] {
				c.addParams(s.step.Graph, n, s.div.param)
			}
			c.gather = max(c.gather, s.div.gather[n.ID])
		}
	}
	p, err := c.model.Plan(s.ctx, nil, s.opts.Plan)
	if err != nil {
		return Chunk{}, fmt.Errorf("stage %d: %w", k%s.layout.PP, err)
	}
	c.persistent(p, s.div.param)
	out := Chunk{Name: st.names[k], Nodes: len(c.model.Graph.Nodes), model: c, Usage: c.usage(p)}
	if at := p.After.Peak; at.Step >= 0 {
		out.Node = p.Analysis.Graph.NodeLabel(at.Node)
	}
	for _, v := range c.inputs {
		out.Inputs += max(p.Sizes.Bytes[v], 0)
	}
	out.constants = c.constants
	return out, nil
}
