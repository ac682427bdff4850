package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"memopt/planner/remat"
)

// SolveSchema is the schema of the JSON that `memopt solve -O json` prints.
const SolveSchema = "memopt.solve/v1"

type solveJSON struct {
	Schema         string          `json:"schema,omitempty"`
	Name           string          `json:"name,omitempty"`
	Budget         int64           `json:"budget_bytes,omitempty"`
	Steps          json.RawMessage `json:"steps,omitempty"`
	Cost           int64           `json:"cost"`
	Peak           int64           `json:"peak"`
	CostLowerBound int64           `json:"cost_lower_bound"`
	PeakLowerBound int64           `json:"peak_lower_bound"`
	Optimal        bool            `json:"optimal"`
	InOrder        bool            `json:"in_order"`
	Solver         string          `json:"solver"`
	Overhead       float64         `json:"overhead"`
}

func newSolveJSON(in *remat.Instance, r *remat.Result) solveJSON {
	return solveJSON{Cost: r.Cost, Peak: r.Peak, CostLowerBound: r.CostLowerBound, PeakLowerBound: r.PeakLowerBound,
		Optimal: r.Optimal, InOrder: r.InOrder, Solver: r.Solver, Overhead: overhead(r.Cost, in)}
}

// overhead is the share by which a schedule's cost exceeds that of running every node once.
func overhead(cost int64, in *remat.Instance) float64 {
	var base float64
	for i := range in.Nodes {
		base += float64(in.Nodes[i].Cost)
	}
	if base == 0 {
		return 0
	}
	return (float64(cost) - base) / base
}

// Overhead says how much a schedule costs beyond running every node once.
func Overhead(cost int64, in *remat.Instance) string {
	return fmt.Sprintf("overhead %.2f %%", 100*overhead(cost, in))
}

// SolveJSON writes a schedule as a file: its steps and what is known of it.
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

// Solve says what a search found.
func Solve(w io.Writer, format Format, in *remat.Instance, r *remat.Result) error {
	j := newSolveJSON(in, r)
	if format == JSONFormat {
		j.Schema, j.Name = SolveSchema, in.Name
		return WriteJSON(w, j)
	}
	t := Table{Header: []string{"what", "value", ""}, Right: []bool{false, true, false},
		Fit: []Fit{Wrap, Whole, Wrap}}
	t.Add("nodes", fmt.Sprint(len(in.Nodes)), "")
	t.Add("peak", Bytes(r.Peak), fmt.Sprintf("no schedule has less than %s", Bytes(r.PeakLowerBound)))
	note := "proved to be the least in the given order"
	if !r.Optimal {
		note = fmt.Sprintf("at least %.2f %%", 100*overhead(r.CostLowerBound, in))
	}
	t.Add("overhead", fmt.Sprintf("%.2f %%", 100*j.Overhead), note)
	t.Add("found by", r.Solver, "")
	return t.WriteAs(w, format)
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
