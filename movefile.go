package memopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"memopt/check/planfile"
	"memopt/configs"
	"memopt/graph"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/budget"
	"memopt/planner/offload"
	"memopt/recompute"
)

// moved is the rewritten graph with moves.
func (r *Rewritten) moved(m *recompute.Moved) *Rewritten {
	with := *r.Rewritten
	with.Model, with.Origin = m.Model, make([]graph.NodeID, len(m.Origin))
	for i, of := range m.Origin {
		if with.Origin[i] = graph.NoNode; of != graph.NoNode {
			with.Origin[i] = r.Origin[of]
		}
	}
	out := *r
	out.Rewritten = &with
	return &out
}

// note records the plan in its graph's metadata.
func (p *Moving) note() error {
	r, err := p.record()
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	p.Model.SetMeta(recompute.Key, string(text))
	return nil
}

// record is the plan as its graph's metadata have it.
func (p *Moving) record() (*recompute.Record, error) {
	if p.file != nil {
		return inGraph(p.file), nil
	}
	alone, err := p.alone()
	if err != nil {
		return nil, err
	}
	seconds := p.StepAsIs*(1+p.Recomputed) + p.waited
	r := p.Plan.Record(p.Options.Seed)
	r.Schema = recompute.SchemaMoved
	over := seconds/p.StepAsIs - 1
	least := min(p.Bound, over)
	r.Bound = &budget.Bound{Overhead: least, Gap: (over - least) / (1 + over), Optimal: least >= over}
	r.Predicted.PlannedBytes, r.Predicted.ArenaBytes = p.Peak, p.Arena
	r.Predicted.TotalBytes = p.Arena + p.Persistent
	r.MovedRecord = &recompute.MovedRecord{Link: &recompute.LinkRecord{
		BytesPerSecond: p.Options.Link.BytesPerSecond, LatencyMicros: micros(p.Options.Link.Latency)},
		HostBudget: p.Options.HostBudget, HostPeak: p.HostPeak, MovedBytes: p.Moved,
		Moves: recompute.RecordMoves(alone.Model.Graph, p.Moves), Streams: recompute.Streams,
		Makespan: seconds * 1e6, Base: p.StepAsIs * 1e6}
	r.Inherit(p.Plan.Of.Model)
	return r, nil
}

// inGraph is a plan file's record as the metadata of its graph have it, without the parts that plan files alone have.
func inGraph(file *recompute.Record) *recompute.Record {
	r, moved := *file, *file.MovedRecord
	r.Model, r.ToolVersion, r.Budget, r.Recompute, r.Demands, r.Ranges = "", "", nil, nil, nil, nil
	moved.Seeds, moved.Certificate, moved.NodeMicros, moved.WholeMicros = nil, nil, nil, nil
	r.MovedRecord = &moved
	return &r
}

// alone is the graph with the recomputations and without moves.
func (p *Moving) alone() (*Rewritten, error) {
	return p.Plan.Rewrite(RewriteOptions{Seed: p.Options.Seed})
}

// File returns the plan as a plan file, for Model.MovingOf.
func (p *Moving) File() ([]byte, error) {
	r, err := p.FileRecord()
	if err != nil {
		return nil, err
	}
	data, err := configs.FormatPlan(r)
	if err != nil {
		return nil, &Error{OfMemopt, err}
	}
	return data, nil
}

// FileRecord is the plan as plan files have it.
func (p *Moving) FileRecord() (*recompute.Record, error) {
	if p.file != nil {
		return p.file, nil
	}
	in, err := p.record()
	if err != nil {
		return nil, err
	}
	alone, err := p.alone()
	if err != nil {
		return nil, err
	}
	r := p.Plan.FileRecord(p.Plan.Of.StructureSHA256, p.Options.Seed, Version())
	r.Schema, r.Bound, r.Predicted, r.MovedRecord = in.Schema, in.Bound, in.Predicted, in.MovedRecord
	asked := planner.Budget(p.Asked)
	r.Budget = asked.Record()
	r.Recompute.Overhead = (r.Makespan - r.Base) / r.Base
	r.Seeds = recompute.RecordSeeds(alone.Model.Graph)
	r.NodeMicros = inMicros(p.Plan.NodeSeconds())
	if p.Plan.Whole != nil {
		r.WholeMicros = inMicros(p.Plan.Whole.NodeSeconds())
	}
	return r, p.certify(r)
}

// certify adds why the bound holds, as far as one cut proves it.
func (p *Moving) certify(r *recompute.Record) error {
	ctx := timelimit.Without(context.Background())
	moment, price := p.Plan.MovedCut(ctx, p.Budget, p.Options.Link.BytesPerSecond)
	if moment == graph.NoNode || price <= 0 {
		return nil
	}
	c := &recompute.CertificateRecord{Moment: recompute.Labels(p.Plan.Model.Graph)[moment], Price: price * 1e6,
		BudgetBytes: p.Budget, Order: "given"}
	r.Certificate = c
	of := p.Plan.Of
	proved, base, err := planfile.Proved(of.Model, of.Dims, r)
	if err != nil {
		return &Error{OfMemopt, err}
	}
	if c.Bound = proved; proved <= base {
		r.Certificate = nil
	}
	return nil
}

func inMicros(seconds []float64) []float64 {
	out := make([]float64, len(seconds))
	for i, s := range seconds {
		out[i] = s * 1e6
	}
	return out
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// LinkOf is the link of a plan file's record.
func LinkOf(r *recompute.LinkRecord) (offload.Link, error) {
	l := offload.Link{BytesPerSecond: r.BytesPerSecond}
	if !(r.LatencyMicros >= 0) || r.LatencyMicros > 1e12 {
		return l, fmt.Errorf("the link's latency is %g us: wanted a number from 0 on", r.LatencyMicros)
	}
	l.Latency = time.Duration(math.Round(r.LatencyMicros * 1e3))
	return l, l.Validate()
}

// FitsIn compares a plan with a budget, as Plan.Fit does for plans without moves.
func (p *Moving) FitsIn(b *planner.Budget) *planner.Fit {
	return &planner.Fit{Budget: b, Limit: b.Bytes(p.Persistent, p.ArenaAsIs), Arena: p.Arena, Persistent: p.Persistent}
}

// MovingOf returns the plan of a plan file whose values move to the host, which must have been made for a model of the
// same structure. Options are for its cost and memory; its Bound is the file's. The error is the file's, or that of
// Plan.
func (m *Model) MovingOf(ctx context.Context, r *recompute.Record, o PlanOptions) (*Moving, error) {
	if r.MovedRecord == nil {
		return nil, &Error{OfCaller, errors.New("the plan moves no values: wanted one that does")}
	}
	link, err := LinkOf(r.Link)
	if err != nil {
		return nil, err
	}
	file := *r
	if b, ok := boundOf(r); ok {
		file.Bound = &b // whose fields are in one order
	}
	r = &file
	promised := *r // without moves a plan takes more
	promised.Predicted, promised.MovedRecord = nil, nil
	strategy, err := m.planOf(&promised)
	if err != nil {
		return nil, err
	}
	p := &Moving{file: r, Options: MoveOptions{Link: link, HostBudget: r.HostBudget, Seed: r.Seed}}
	o.Within = nil
	if p.Plan, err = m.Plan(ctx, strategy, o); err != nil {
		return nil, err
	}
	if p.Plan.Arena == nil {
		return nil, &Error{OfModel, errors.New("values move only where all sizes are known")}
	}
	alone, err := p.alone()
	if err != nil {
		return nil, err
	}
	if err := recompute.CheckSeeds(alone.Model.Graph, r.Seeds); err != nil {
		return nil, fmt.Errorf("%w; plan anew", err)
	}
	if p.Moves, err = recompute.ResolveMoves(alone.Model.Graph, r.Moves); err != nil {
		return nil, fmt.Errorf("%w; plan anew", err)
	}
	return p, p.follow(ctx, m, alone, o)
}

// follow makes the graph of a plan that was read, and measures it.
func (p *Moving) follow(ctx context.Context, m *Model, alone *Rewritten, o PlanOptions) error {
	plain := o
	plain.Chunk = ""
	asIs, err := m.Plan(ctx, nil, plain)
	if err != nil {
		return err
	}
	p.StepAsIs, p.ArenaAsIs, p.Persistent = asIs.Step.Seconds, asIs.Arena.Bytes, p.Plan.Persistent
	s := &moveSearch{m: m, opts: o, moves: p.Options, limit: asIs.Arena.Bytes, asIs: asIs, step: p.StepAsIs}
	order := graph.FileOrder(alone.Model.Graph)
	if len(p.Moves) == 0 {
		p.Model, p.Rewritten, p.Laid = alone.Model, alone, p.Plan.Plan
		p.Peak, p.Arena = p.Plan.Planned.Peak.Bytes, p.Plan.Arena.Bytes
	} else if err := s.finish(ctx, p, alone, order); err != nil {
		if errors.Is(err, recompute.ErrMove) {
			return fmt.Errorf("%w; plan anew", errors.Unwrap(err)) // the file's fault
		}
		return err
	}
	p.Budget = math.MaxInt64
	if b := p.file.Budget; b != nil {
		p.Asked = Budget{Total: b.TotalBytes, Share: b.Share, Arena: b.ArenaBytes}
		p.Budget = p.Asked.Bytes(asIs.Persistent, asIs.Arena.Bytes)
	}
	p.timed()
	if b, ok := boundOf(p.file); ok {
		p.Bound = min(b.Overhead, p.Overhead)
	}
	return p.note()
}

// boundOf is the bound that a record states.
func boundOf(r *recompute.Record) (b budget.Bound, ok bool) {
	text, err := json.Marshal(r.Bound)
	return b, r.Bound != nil && err == nil && json.Unmarshal(text, &b) == nil
}

// timed fills in the time of a step, as its graph takes it.
func (p *Moving) timed() {
	waits := p.waited
	if waits < 1e-9*p.StepAsIs {
		waits = 0 // rounding
	}
	p.Recomputed = p.Plan.Overhead
	p.Seconds = p.StepAsIs*(1+p.Recomputed) + waits
	p.Overhead = p.Recomputed + waits/p.StepAsIs
}
