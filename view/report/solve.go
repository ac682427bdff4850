package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"memopt/planner/remat"
)

// SolveSchema is the schema of the JSON that `memopt solve -O json` prints.
const SolveSchema = "memopt.solve/v1"

type solveJSON struct {
	Schema         string           `json:"schema,omitempty"`
	Name           string           `json:"name,omitempty"`
	Budget         int64            `json:"budget_bytes,omitempty"`
	Steps          json.RawMessage  `json:"steps,omitempty"`
	Cost           int64            `json:"cost"`
	Peak           int64            `json:"peak"`
	CostLowerBound int64            `json:"cost_lower_bound"`
	PeakLowerBound int64            `json:"peak_lower_bound"`
	Optimal        bool             `json:"optimal"`
	InOrder        bool             `json:"in_order"`
	Solver         string           `json:"solver"`
	Overhead       float64          `json:"overhead"`
	Certificate    *certificateJSON `json:"certificate,omitempty"`
}

// certificateJSON is why no schedule within the budget costs less than a bound.
type certificateJSON struct {
	Moment json.RawMessage `json:"moment"`
	Price  float64         `json:"price"`
	Budget int64           `json:"budget_bytes"`
	Order  string          `json:"order"`
	Bound  float64         `json:"bound"`
}

// newCertificateJSON names the moment; c may be nil.
func newCertificateJSON(c *remat.Certificate, name func(node int32) []byte) *certificateJSON {
	if c == nil {
		return nil
	}
	order := "given"
	if c.AnyOrder {
		order = "any"
	}
	return &certificateJSON{name(c.Node), c.Price, c.Budget, order, c.Bound}
}

func newSolveJSON(in *remat.Instance, r *remat.Result) solveJSON {
	return solveJSON{Cost: r.Cost, Peak: r.Peak, CostLowerBound: r.CostLowerBound, PeakLowerBound: r.PeakLowerBound,
		Optimal: r.Optimal, InOrder: r.InOrder, Solver: r.Solver, Overhead: overhead(r.Cost, in),
		Certificate: newCertificateJSON(r.Certificate, func(v int32) []byte {
			if int(v) < len(in.IDs) {
				return []byte(in.IDs[v])
			}
			return strconv.AppendInt(nil, int64(v), 10)
		})}
}

// overhead is the excess of a schedule's cost over that of running every node once, as a share of it.
func overhead(cost int64, in *remat.Instance) float64 {
	var base float64
	for i := range in.Nodes {
		base += float64(in.Nodes[i].Cost)
	}
	return overheadOf(float64(cost), base)
}

// Overhead formats the cost of a schedule beyond running every node once, as a share of that.
func Overhead(share float64) string { return fmt.Sprintf("overhead %.2f %%", 100*share) }

// SolveJSON writes a schedule as a file: its steps and their proven bounds.
func SolveJSON(w io.Writer, in *remat.Instance, r *remat.Result) error {
	var steps bytes.Buffer
	if err := remat.WriteSchedule(&steps, in, &r.Schedule); err != nil {
		return err
	}
	body, err := json.Marshal(newSolveJSON(in, r))
	if err != nil {
		return err
	}
	// The steps are on a line each, as the package writes them.
	text := strings.TrimSuffix(strings.TrimSpace(steps.String()), "}")
	_, err = fmt.Fprintf(w, "%s,\n%s\n", text, body[1:])
	return err
}

// SolveSecondSchema is the schema of the JSON that `memopt solve -O json` prints for an instance of version 2.
const SolveSecondSchema = "memopt.solve/v2"

// solutionJSON is a schedule for an instance of version 2.
type solutionJSON struct {
	Schema         string           `json:"schema,omitempty"`
	Name           string           `json:"name,omitempty"`
	Cost           float64          `json:"cost"`
	Unit           string           `json:"cost_unit,omitempty"`
	BaseCost       float64          `json:"base_cost"`
	Peak           int64            `json:"peak"`
	CostLowerBound float64          `json:"cost_lower_bound"`
	BoundOrder     string           `json:"cost_lower_bound_order"`
	PeakLowerBound int64            `json:"peak_lower_bound"`
	Optimal        bool             `json:"optimal"`
	InOrder        bool             `json:"in_order"`
	Solver         string           `json:"solver"`
	Overhead       float64          `json:"overhead"`
	*movesJSON                      // nil: no value may move
	Certificate    *certificateJSON `json:"certificate,omitempty"`
	Tags           *tagsJSON        `json:"tags,omitempty"`
}

// movesJSON is about the values of a schedule that move to the host and back.
type movesJSON struct {
	Makespan   float64  `json:"makespan"`
	HostPeak   int64    `json:"host_peak"`
	HostBudget int64    `json:"host_budget"`
	Moved      int64    `json:"moved_bytes"`
	Link       linkJSON `json:"link"`
}

type linkJSON struct {
	BytesPerSecond float64 `json:"bytes_per_second"`
	LatencyMicros  float64 `json:"latency_us"`
}

// tagsJSON is the tags of nodes by their ids, in the order of the instance.
type tagsJSON []remat.Computation

// MarshalJSON writes an object.
func (t tagsJSON) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := range t {
		id, err := json.Marshal(t[i].ID)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, id...), ':'), t[i].Tags...)
	}
	return append(b, '}'), nil
}

func newSolutionJSON(p *remat.Problem, s *remat.Solution) solutionJSON {
	return solutionJSON{Cost: s.Cost, Unit: p.Unit, BaseCost: s.Base, Peak: s.Peak, CostLowerBound: s.CostLowerBound,
		BoundOrder: boundOrder(s), PeakLowerBound: s.PeakLowerBound, Optimal: s.Optimal, InOrder: s.InOrder,
		Solver: s.Solver, Overhead: overheadOf(s.Cost, s.Base),
		Certificate: newCertificateJSON(s.Certificate, nodeName(p))}
}

// nodeName gives the names of nodes as JSON has them.
func nodeName(p *remat.Problem) func(node int32) []byte {
	return func(v int32) []byte {
		id, _ := json.Marshal(p.Nodes[v].ID) // a text, which has no error
		return id
	}
}

// boundOrder names the orders of first computes that the bound on the cost holds for.
func boundOrder(s *remat.Solution) string {
	if s.AnyOrder {
		return "any"
	}
	return "given"
}

// overheadOf is the excess of a cost over that of computing every node once, as a share of it.
func overheadOf(cost, base float64) float64 {
	if base == 0 {
		return 0
	}
	return (cost - base) / base
}

// SolutionJSON writes a schedule for an instance of version 2 as a file.
func SolutionJSON(w io.Writer, p *remat.Problem, s *remat.Solution) error {
	var steps bytes.Buffer
	if err := p.WriteSteps(&steps, s.Steps); err != nil {
		return err
	}
	return scheduleFile(w, p, steps.String(), newSolutionJSON(p, s))
}

// scheduleFile writes the steps of a schedule and the rest of its answer.
func scheduleFile(w io.Writer, p *remat.Problem, steps string, j solutionJSON) error {
	tags := slices.DeleteFunc(slices.Clone(p.Nodes), func(c remat.Computation) bool { return c.Tags == nil })
	if len(tags) > 0 {
		j.Tags = (*tagsJSON)(&tags)
	}
	body, err := json.Marshal(j)
	if err != nil {
		return err
	}
	text := strings.TrimSuffix(strings.TrimSpace(steps), "}")
	_, err = fmt.Fprintf(w, `{"format":"memopt-schedule","version":2,%s,
%s
`, text[1:], body[1:])
	return err
}

// Solution writes the answer of a search for an instance of version 2.
func Solution(w io.Writer, format Format, p *remat.Problem, s *remat.Solution) error {
	j := newSolutionJSON(p, s)
	if format == JSONFormat {
		j.Schema, j.Name = SolveSecondSchema, p.Name
		return WriteJSON(w, j)
	}
	note := "proved to be the least"
	if !s.Optimal {
		note = fmt.Sprintf("at least %.2f %%", 100*overheadOf(s.CostLowerBound, s.Base))
	}
	note += " in " + map[bool]string{true: "any", false: "the given"}[s.AnyOrder] + " order"
	return solveTable(len(p.Nodes), s.Peak, s.PeakLowerBound, j.Overhead, note, s.Solver).WriteAs(w, format)
}

// Solve reports the result of a search.
func Solve(w io.Writer, format Format, in *remat.Instance, r *remat.Result) error {
	j := newSolveJSON(in, r)
	if format == JSONFormat {
		j.Schema, j.Name = SolveSchema, in.Name
		return WriteJSON(w, j)
	}
	note := "proved to be the least in the given order"
	if !r.Optimal {
		note = fmt.Sprintf("at least %.2f %%", 100*overhead(r.CostLowerBound, in))
	}
	return solveTable(len(in.Nodes), r.Peak, r.PeakLowerBound, j.Overhead, note, r.Solver).WriteAs(w, format)
}

// solveTable is the table of an answer; note is about the least overhead: a bound, or that it is reached.
func solveTable(nodes int, peak, lowest int64, overhead float64, note, solver string) *Table {
	t := &Table{Header: []string{"item", "value", ""}, Right: []bool{false, true, false},
		Fit: []Fit{Wrap, Whole, Wrap}}
	t.Add("nodes", fmt.Sprint(nodes), "")
	t.Add("peak", Bytes(peak), fmt.Sprintf("no schedule has less than %s", Bytes(lowest)))
	t.Add("overhead", fmt.Sprintf("%.2f %%", 100*overhead), note)
	t.Add("found by", solver, "")
	return t
}

// ParseShare reads a percentage; ok is false for other texts.
func ParseShare(text string) (share float64, ok bool, err error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	if !ok {
		return 0, false, nil
	}
	var x float64
	if _, err := fmt.Sscanf(number+" ", "%g ", &x); err != nil || !(x > 0 && x <= 1000) {
		return 0, true, fmt.Errorf("share %q: wanted a percentage above 0, for example 80%%", text)
	}
	return x / 100, true, nil
}

// InfeasibleSchema is the schema of the JSON that `memopt solve -O json` prints where no schedule fits.
const InfeasibleSchema = "memopt.infeasible/v1"

// Infeasible writes how far a search without an answer got. lowest_peak is null without a search, since the
// bound rules all schedules out.
func Infeasible(w io.Writer, name string, e *remat.InfeasibleError) error {
	j := struct {
		Schema         string `json:"schema"`
		Name           string `json:"name,omitempty"`
		Fits           bool   `json:"fits"`
		Proved         bool   `json:"proved"`
		Budget         int64  `json:"budget_bytes"`
		LowestPeak     *int64 `json:"lowest_peak"`
		PeakLowerBound int64  `json:"peak_lower_bound"`
	}{InfeasibleSchema, name, false, e.Proved(), e.Budget, nil, e.PeakLowerBound}
	if e.LowestPeak > 0 {
		j.LowestPeak = &e.LowestPeak
	}
	return WriteJSON(w, j)
}
