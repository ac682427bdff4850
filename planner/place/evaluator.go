// Package place decides where nodes are recomputed (placements), and evaluates placements.
//
// A value is recomputed right before the first backward node that reads it. From there it lives on to its
// later readers: one copy. If that keeps it across the plan's peak, it is dropped after the last reader
// before the peak and recomputed once more for the next reader behind it, provided that this lowers the
// simulated peak. Nodes inside a subgraph that several values need are shared the same way. So sharing and
// copying are both decided by the peak, never by a rule of thumb.
//
// An [Evaluator] tries one set of candidates or placements after the other on the program of the rewritten
// graph, without writing that graph.
//
// # Placement
//
// All nodes of the selected candidates are walked from the last to the first. A node is needed at the places
// of its backward readers and at those of its recomputed consumers; it is recomputed at the first of these
// places and stays live up to the last, unless the way crosses a barrier. Barriers are set at the steps where
// the simulated plan peaks, as long as that lowers the peak.
package place

import (
	"context"
	"slices"

	"memopt/graph/live"
	"memopt/planner/arena"
	"memopt/recompute"
)

// Evaluator tries sets of placements in one graph, one after the other, in the same memory. All
// searches for one plan use one evaluator.
type Evaluator struct {
	Analysis *recompute.Analysis
	Sizes    *live.Sizes // nil while symbols are unbound; then trials simulate no memory
	Pos      []int32     // by node: its place in the order
	Memory   Memory
	// Forced are candidates that every trial of candidates has besides the chosen ones.
	Forced []recompute.Candidate

	base  *live.Program // of the unchanged graph, without workspaces and steps; nil without sizes
	clone cloner
	sim   live.Simulator
	steps int
}

// Memory is the memory that counts besides the values of a graph.
type Memory struct {
	// Workspace is the bytes that kernels need besides their operands, by node; nil means no workspaces.
	Workspace []int64
	// CloneBytes is the memory that each clone takes throughout a run.
	CloneBytes int64
}

// NewEvaluator makes an evaluator for an analysis and the sizes of its graph, which may be nil.
func NewEvaluator(a *recompute.Analysis, sizes *live.Sizes, m Memory) *Evaluator {
	b := &Evaluator{Analysis: a, Sizes: sizes, Pos: a.Order.Positions(), Memory: m}
	if sizes != nil {
		// Steps are made where they are needed: all of them take a tenth of a large plan's memory.
		b.base = live.NewProgram(a.Graph, nil, sizes)
	}
	return b
}

// AsIs returns the program of the unchanged graph, workspaces included. There must be sizes.
func (b *Evaluator) AsIs() *live.Program {
	p := live.NewProgram(b.Analysis.Graph, b.Analysis.Order, b.Sizes)
	if b.Memory.Workspace != nil {
		p.Bytes = slices.Clone(p.Bytes) // those of the sizes
		addWorkspaces(p, b.Memory.Workspace)
	}
	return p
}

// Program returns the program of the graph rewritten by placements, workspaces included. There must
// be sizes. It is good until the evaluator's next trial.
func (b *Evaluator) Program(placements []recompute.Placement) (*live.Program, error) {
	return b.program(placements)
}

// Steps is how many steps have been simulated so far.
func (b *Evaluator) Steps() int { return b.steps }

// Trial is a set of placements and their simulation. Apart from the placements it is valid until the
// evaluator's next trial, and empty if sizes are unknown.
type Trial struct {
	Placements []recompute.Placement
	Clones     int // recomputed nodes
	Peak       int64
	Program    *live.Program // of the rewritten graph, workspaces included
	Places     []int32       // by step of the program: its place in the order of the unchanged graph
	Timeline   *live.Timeline

	reruns   *reruns   // behind the placements, to explain them; nil if they were chosen elsewhere
	schedule *schedule // of the placements
}

// Explain gives the placements their reasons. Many selections are tried, but only the placements of
// the chosen one are ever read.
func (t *Trial) Explain() {
	if t.reruns != nil {
		t.reruns.explain(t.schedule, t.Placements)
	}
}

// Layout packs the arena of a trial. A context that is done ends the search for a smaller one.
func (t *Trial) Layout(ctx context.Context) *arena.Layout {
	return arena.NewLayout(ctx, t.Timeline, t.Program.Bytes)
}

// QuickLayout is Layout with less work, for one of many trials.
func (t *Trial) QuickLayout(ctx context.Context) *arena.Layout {
	return arena.QuickLayout(ctx, t.Timeline, t.Program.Bytes)
}

// FirstLayout is QuickLayout for an arena of at most so many bytes.
func (t *Trial) FirstLayout(ctx context.Context, most int64) *arena.Layout {
	return arena.FirstLayout(ctx, t.Timeline, t.Program.Bytes, most)
}

// minSplit: a value below 1/1024 of the peak is not worth a second clone.
const minSplit = 1024

// Small is the smallest number of bytes that is not negligible beside the peak.
func (t *Trial) Small() int64 { return max(t.Peak/minSplit, 1) }

// Simulate tries placements, whichever candidates they belong to. The error is the simulator's.
func (b *Evaluator) Simulate(placements []recompute.Placement) (*Trial, error) {
	p, err := b.program(placements)
	if err != nil {
		return nil, err
	}
	b.steps += len(p.Steps)
	t, err := b.sim.Run(p)
	if err != nil {
		return nil, err
	}
	return &Trial{Placements: placements, Clones: len(p.Steps) - len(b.Analysis.Order), Peak: t.Peak.Bytes,
		Program: p, Places: b.clone.places, Timeline: t}, nil
}

// maxRounds bounds how often a lower peak is looked for by splitting copies. Each round simulates
// the whole program once; repeated layers are split together, so a few rounds reach the fixpoint.
const maxRounds = 12

// Candidates places candidates of the analysis, given by index, and the forced ones. Copies are split at the peak as
// long as the simulated peak falls. The error is the simulator's.
func (b *Evaluator) Candidates(chosen []int) (*Trial, error) {
	r := newReruns(b, b.candidates(chosen), nil)
	if b.Sizes == nil {
		s := r.plan(nil, noLimit)
		return &Trial{Placements: r.placements(s), reruns: r, schedule: s}, nil
	}
	var set *barriers
	best, err := r.try(nil, noLimit)
	if err != nil {
		return nil, err
	}
	last, single := best, best.Clones
	for range maxRounds {
		more := best.barriers(set)
		if set != nil && len(more.list) == len(set.list) || len(more.list) == 0 {
			break
		}
		trial, err := r.try(more, maxCopies*single)
		if err != nil {
			return nil, err
		}
		if trial == nil {
			break // more clones than that: not even simulated
		}
		last = trial
		if trial.Peak >= best.Peak {
			break
		}
		best, set = trial, more
	}
	if last != best { // the evaluator's memory holds a worse trial
		return r.try(set, noLimit)
	}
	return best, nil
}
