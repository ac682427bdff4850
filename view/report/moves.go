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
			Link: linkJSON{o.Link.BytesPerSecond, float64(o.Link.Latency.Nanoseconds()) / 1e3}},
		Certificate: newCertificateJSON(s.Certificate, nodeName(p))}
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
