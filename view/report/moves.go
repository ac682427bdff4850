package report

import (
	"bytes"
	"fmt"
	"io"

	"memopt/planner/offload"
	"memopt/planner/remat"
)

func newMovesJSON(p *remat.Problem, s *offload.Solution, o offload.Options) solutionJSON {
	return solutionJSON{Cost: s.Cost, Unit: p.Unit, BaseCost: s.Base, Peak: s.Peak, CostLowerBound: s.LowerBound,
		BoundOrder: boundOrder(&remat.Solution{AnyOrder: s.AnyOrder}), PeakLowerBound: s.PeakLowerBound,
		Optimal: s.Optimal, InOrder: s.InOrder, Solver: "moves", Overhead: s.Overhead(), movesJSON: &movesJSON{
			Makespan: s.Makespan, HostPeak: s.HostPeak, HostBudget: o.HostBudget, Moved: s.Moved,
			Link: newLinkJSON(o.Link)},
		Certificate: newCertificateJSON(s.Certificate, nodeName(p))}
}

func newLinkJSON(l offload.Link) linkJSON {
	return linkJSON{l.BytesPerSecond, float64(l.Latency.Nanoseconds()) / 1e3}
}

// MovesJSON writes a schedule with values that move to the host and back as a file.
func MovesJSON(w io.Writer, p *remat.Problem, s *offload.Solution, o offload.Options) error {
	var steps bytes.Buffer
	if err := offload.WriteSteps(&steps, p, s.Steps); err != nil {
		return err
	}
	return scheduleFile(w, p, steps.String(), newMovesJSON(p, s, o))
}

// Moves writes the answer of a search for a schedule with values that move to the host and back.
func Moves(w io.Writer, format Format, p *remat.Problem, s *offload.Solution, o offload.Options) error {
	j := newMovesJSON(p, s, o)
	if format == JSONFormat {
		j.Schema, j.Name = SolveSecondSchema, p.Name
		return WriteJSON(w, j)
	}
	order := map[bool]string{true: "any", false: "the given"}[s.AnyOrder]
	note := fmt.Sprintf("at least %.2f %% in %s order", 100*overheadOf(s.LowerBound, s.Base), order)
	if s.Optimal {
		note = fmt.Sprintf("proved to be the least in %s order", order)
	}
	t := solveTable(len(p.Nodes), s.Peak, s.PeakLowerBound, j.Overhead, note, j.Solver)
	t.Add("recomputed", fmt.Sprintf("%.2f %%", 100*overheadOf(s.Cost, s.Base)),
		"of the time of one pass; the rest of the overhead is waiting for copies")
	t.Add("moved", Bytes(s.Moved), fmt.Sprintf("to the host, where copies take up to %s at once", Bytes(s.HostPeak)))
	return t.WriteAs(w, format)
}

// MovingSchema is the schema of the JSON of a plan whose values move to the host.
const MovingSchema = "memopt.moves/v1"

// MovingPlan is a plan whose values move to the host and back, as its report has it.
type MovingPlan struct {
	Schema         string   `json:"schema"`
	Budget         int64    `json:"budget_bytes"` // of the arena
	Persistent     int64    `json:"persistent_bytes"`
	Peak           int64    `json:"peak_live_bytes"`
	Arena          int64    `json:"arena_bytes"`
	Total          int64    `json:"total_bytes"`
	HostPeak       int64    `json:"host_peak"`
	HostBudget     int64    `json:"host_budget"`
	Moved          int64    `json:"moved_bytes"`
	Moves          int      `json:"moves"`
	Recomputed     int      `json:"recomputed_nodes"`
	Overhead       float64  `json:"overhead"`
	Recomputation  float64  `json:"recomputation"` // the part of the overhead that it takes
	OverheadBound  float64  `json:"overhead_lower_bound"`
	Seconds        float64  `json:"step_seconds"`
	StepAsIs       float64  `json:"step_seconds_as_is"`
	Link           linkJSON `json:"link"`
	TotalAsIs      int64    `json:"total_bytes_as_is"`
	BytesPerSecond float64  `json:"-"`
	LatencyMicros  float64  `json:"-"`
}

// Moving reports a plan whose values move to the host.
func Moving(w io.Writer, format Format, p MovingPlan) error {
	p.Schema, p.Link = MovingSchema, linkJSON{p.BytesPerSecond, p.LatencyMicros}
	if format == JSONFormat {
		return WriteJSON(w, p)
	}
	t := &Table{Header: []string{"item", "value", ""}, Right: []bool{false, true, false},
		Fit: []Fit{Wrap, Whole, Wrap}}
	t.Add("total", Bytes(p.Total), fmt.Sprintf("%s before", Bytes(p.TotalAsIs)))
	t.Add("arena", Bytes(p.Arena), fmt.Sprintf("within a budget of %s", Bytes(p.Budget)))
	t.Add("overhead", fmt.Sprintf("%.2f %%", 100*p.Overhead), fmt.Sprintf("at least %.2f %% in this order",
		100*p.OverheadBound))
	t.Add("recomputed", fmt.Sprintf("%.2f %%", 100*p.Recomputation),
		fmt.Sprintf("of the step, in %d nodes", p.Recomputed))
	t.Add("moved", Bytes(p.Moved), fmt.Sprintf("in %d moves; copies take up to %s of the host at once", p.Moves,
		Bytes(p.HostPeak)))
	return t.WriteAs(w, format)
}
