package estimate

import (
	"context"
	"errors"
	"fmt"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/autograd"
	"memopt/executor"
	"memopt/graph/precision"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/planner/device"
	"memopt/sim/allocator"
	"memopt/train"
	"memopt/view/report"
)

// Options describe the estimated step. The zero value estimates the step of a forward model with its own types,
// for no particular device.
type Options struct {
	// Recipe describes the training step of a forward model. A graph that has a backward half is used
	// unchanged.
	Recipe train.Recipe
	// Precision counts values in other types than the graph's.
	Precision precision.Precision
	// Device is the device of the step and its times. nil means device.Default, whose memory does not
	// count then.
	Device *device.Profile
	// Memory is the bytes that the device has; 0 means the profile's.
	Memory int64
	// Reserve is the bytes of these that no step can have; nil means the profile's.
	Reserve *int64
	// Effort bounds the work of the search for a plan, as in planner.Budget; the deadline of the
	// context bounds the time of all searches together.
	Effort float64
	// Chunk is the mode of chunking for plans, as in planner.Options.
	Chunk   chunk.Mode
	Seed    int64
	Threads int // of kernels on the CPU, whose workspaces may depend on it; 0 means one per core
	// Moves let values move to the host in plans that make the step fit. The link is also that of copies which the
	// graph has already.
	Moves memopt.MoveOptions
	// HostBudget is the bytes that the home of the states (Recipe.Home) may take, here or in advice; 0: no bound.
	HostBudget int64
	// HomeOn is the device whose steps can read states in a home, for advice; nil: no home is advised.
	HomeOn *device.Profile
	// Allocator serves the step, and Conf are the options of PyTorch's.
	Allocator Allocator
	Conf      allocator.Conf
	// Advise asks for further ways to make the step fit, if it does not.
	Advise bool
	// Found is called when there is a plan that fits; it may be nil.
	Found func()
}

// Result is the memory of a step, by kind, without and with a plan.
type Result struct {
	Runtime         Runtime // whose step it is
	Path            string
	StructureSHA256 string
	Dims            map[string]int64
	// Made says that the step was derived from a forward model; Optimizer is then its optimizer, and Micros the
	// number of micro-steps of an update.
	Made      bool
	Optimizer string
	Micros    int
	// RuntimeHint is a clause on how the caller estimates the step of another runtime, for reports; "": no such clause.
	RuntimeHint string
	// Foreach is set for a step of PyTorch whose optimizer updates all parameters together.
	Foreach bool
	// Joint describes the differentiation; nil for a graph used unchanged. Lossless says that the model makes
	// no loss: gradients of its outputs are inputs of the step.
	Joint    *autograd.Joint
	Lossless bool
	// Text names the step for reports; "": they do not name it.
	Text string
	// Precision is the types that values are counted with; Types is nil for the graph's own.
	Precision precision.Precision
	Types     *parts.Types
	// Parameters is the number of trained numbers; 0 if the graph does not determine it.
	Parameters int64
	// PerParameter is the arithmetic cost of one parameter; nil if the graph does not determine it.
	PerParameter *parts.PerParameter

	Device        string // the name of the profile; "" without a profile
	DeviceSource  string // of its figures
	Memory        int64  // that the device has, in bytes; 0 if unknown, so there is no answer
	ReserveSource string // the origin of a reserve other than Device's own

	// Link is the bytes per second of the link that copies go over; 0: none.
	Link float64

	// Home is the file of the states, outside of every outcome; nil without one.
	Home *report.Home

	Plain *Outcome
	// Planned is the step with the cheapest plan that fits; nil if no plan fits or the memory is unknown. If
	// the unchanged step fits, it is Plain.
	Planned *Outcome
	// Lowest is the least total reached if no plan fits; 0 if unknown. Least is a lower bound on the total of
	// every plan that exceeds the memory; 0 without such a bound.
	Lowest, Least int64
	// Stopped is set if the time limit ended the search for a plan.
	Stopped bool
	Advice  []Advice
	Notes   []string
	Check   *Ledger // of a run on this machine; nil without a run
}

// Outcome is a step with a plan, or without.
type Outcome struct {
	Parts    parts.Parts
	Overhead float64 // more time than without a plan, as a share; an estimate
	Nodes    int     // recomputed
	Node     string  // where memory is at its worst
	// Copies are those of values that move to the host and back; nil without such.
	Copies *planner.Copies
	// Served says how the allocator serves the step; nil for memopt's arena unless Options.Allocator names it.
	Served *Served
	// Plans are those of the step and, where gradients are accumulated, of the update.
	Plans   []*memopt.Plan
	stopped bool
}

// Total is the bytes that the step takes, the reserve included.
func (o *Outcome) Total() int64 { return o.Parts.Total() }

// Fits reports whether the unchanged step fits, and its home within its budget; known is false if the memory is
// unknown.
func (r *Result) Fits() (fits, known bool) {
	over := r.Home.Over()
	return !over && r.Plain.fits(r.Memory), over || r.Memory > 0
}

// fits reports whether the step fits in so much memory.
func (o *Outcome) fits(memory int64) bool {
	return o.Total() <= memory && (o.Served == nil || o.Served.Error == "")
}

// A plan that an allocator has too little memory for gives way to one of a smaller budget: by its excess in bytes,
// and at least one part in so many of the memory. So many plans are tried.
const tries, tightening = 8, 50

// planShare is the part of the time for the search for a plan; the rest is for advice.
const planShare = 0.7

// Make estimates the step of a model. A context that is done ends the searches with the best
// plan so far. The errors are those of train.Make and memopt.Model.Plan, a
// *symbolic.UnboundError where symbols are unbound, and a *memopt.Error.
func Make(ctx context.Context, m *memopt.Model, o Options) (*Result, error) {
	s, err := newStep(m, o)
	if err != nil {
		return nil, err
	}
	r := s.describe()
	r.Home = s.home
	if r.Plain, err = s.outcome(ctx, nil); err != nil {
		return nil, err
	}
	r.countParameters(s)
	r.note()
	if fits, known := r.Fits(); !known || r.Home.Over() {
		return r, nil
	} else if fits {
		r.Planned = r.Plain
		return r, nil
	}
	share, done := timelimit.Share(ctx, planShare)
	err = s.plan(share, r)
	done()
	if err != nil {
		return nil, err
	}
	r.Advice = r.expandable()
	if o.Advise && ctx.Err() == nil {
		r.Advice = append(r.Advice, s.advise(ctx, r.Planned != nil)...)
	}
	return r, nil
}

// note lists the memory that the figures leave out.
func (r *Result) note() {
	most := int64(0)
	for _, p := range r.Plain.Plans {
		most = max(most, inner(p))
	}
	if most > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s of these are for values inside subgraphs of Loop, Scan or If "+
			"while they run.", report.Bytes(most)))
	}
}

// inner is the most that is known to live inside the subgraphs of one node of a plan.
func inner(p *memopt.Plan) (most int64) {
	for _, n := range p.Sizes.Inner {
		most = max(most, n)
	}
	return most
}

// plan looks for the cheapest plan that fits.
func (s *step) plan(ctx context.Context, r *Result) error {
	limit := s.limit()
	if limit <= 0 {
		return nil
	}
	b := memopt.Budget{Total: limit, Solver: "auto", Seed: s.opts.Seed, Effort: s.opts.Effort,
		Found: s.opts.Found}
	planned, err := s.outcome(ctx, b)
	for i := 1; i < tries && err == nil && !planned.fits(s.memory) && ctx.Err() == nil; i++ {
		// The allocator takes more than the plan: it needs a plan of less.
		if b.Total -= max(planned.Total()-s.memory, s.memory/tightening); b.Total <= 0 {
			break
		}
		planned, err = s.outcome(ctx, b)
	}
	var infeasible *planner.InfeasibleError
	switch {
	case errors.As(err, &infeasible):
		r.Stopped = infeasible.Stopped
		switch beside := r.Plain.Total() - s.arena; {
		case infeasible.Searched():
			r.Lowest = beside + infeasible.LowestArena
		case infeasible.LowerBound > 0:
			r.Least = beside + infeasible.LowerBound
		}
		return nil
	case errors.Is(err, executor.ErrOutOfMemory):
		return nil
	case err != nil:
		return err
	}
	if planned.fits(r.Memory) {
		r.Planned = planned
	} else {
		r.Lowest = min(planned.Total(), r.Plain.Total())
	}
	r.Stopped = planned.stopped || r.Planned == nil && ctx.Err() != nil
	return nil
}
