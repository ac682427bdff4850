package report

import (
	"fmt"
	"io"
	"math"

	"memopt/executor/verify"
)

// VerifySchema is the schema of the JSON of `memopt verify`.
const VerifySchema = "memopt.verify/v1"

// VerifyView is a comparison of two runs, seed by seed.
type VerifyView struct {
	Verdict   *verify.Verdict
	Baseline  RunView
	Planned   RunView
	Seeds     int
	Bitwise   bool
	Unchanged bool // without recomputation: both sides are the same graph
	Asked     bool // a selection was given
	// Predicted is the expected time of a step as a multiple of the baseline's, 0 if that is not
	// known; Profile names the costs.
	Predicted float64
	Profile   string
	// Parts describes the chunked regions of the planned graph; "" without such regions. DrawnInParts
	// is how many of its random nodes draw for a part of another one.
	Parts        string
	DrawnInParts int
}

type verifyJSON struct {
	Schema          string    `json:"schema"`
	Equal           bool      `json:"equal"`
	Bitwise         bool      `json:"bitwise"`
	Seeds           int       `json:"seeds"`
	MaxAbs          *float64  `json:"largest_difference"` // of two elements; null without one that can be told
	FirstDifference *diffJSON `json:"first_difference"`
	Baseline        *runJSON  `json:"baseline"`
	Planned         *runJSON  `json:"planned"`
	SavedBytes      int64     `json:"saved_bytes"`
	Slowdown        float64   `json:"slowdown"`
	Basis           basisJSON `json:"slowdown_basis"`
	Predicted       *float64  `json:"predicted_slowdown"` // null without a plan
	Profile         *string   `json:"profile"`            // the costs that it is predicted by
}

// basisJSON is the times that a slowdown is computed from.
type basisJSON struct {
	Statistic string  `json:"statistic"` // median_of_paired_ratios, or ratio_of_medians if steps did not alternate
	Pairs     int     `json:"pairs"`     // of neighbouring steps
	Baseline  float64 `json:"baseline_ms"`
	Planned   float64 `json:"planned_ms"`
	Least     float64 `json:"least_ratio"`
	Most      float64 `json:"most_ratio"`
}

func newBasisJSON(s verify.Slowdown) basisJSON {
	j := basisJSON{"ratio_of_medians", s.Pairs, ms(s.Baseline), ms(s.Planned), s.Least, s.Most}
	if s.Pairs > 0 {
		j.Statistic = "median_of_paired_ratios"
	}
	return j
}

type diffJSON struct {
	Value string `json:"value"`
	Text  string `json:"text"`
}

func (v *VerifyView) saved() int64 {
	return v.needed(v.Verdict.Baseline) - v.needed(v.Verdict.Planned)
}

// needed is the measure of a saving: the arena, or the process's growth if ONNX Runtime runs without
// one.
func (v *VerifyView) needed(r *verify.Run) int64 {
	if v.Baseline.Run.Runtime != nil && !v.Baseline.Run.Runtime.Arena {
		return r.Resident
	}
	return r.Measured.Arena
}

// Verify writes how two runs compare.
func Verify(w io.Writer, format Format, v *VerifyView) error {
	if format == JSONFormat {
		slowdown := v.Verdict.Slowdown()
		j := verifyJSON{Schema: VerifySchema, Equal: v.Verdict.Equal, Bitwise: v.Bitwise, Seeds: v.Seeds,
			Baseline: newRunJSON(&v.Baseline), Planned: newRunJSON(&v.Planned), SavedBytes: v.saved(),
			Slowdown: slowdown.Ratio, Basis: newBasisJSON(slowdown)}
		if d := v.Verdict.MaxAbs; !math.IsInf(d, 0) && !math.IsNaN(d) {
			j.MaxAbs = &d
		}
		if v.Predicted > 0 {
			j.Predicted, j.Profile = &v.Predicted, &v.Profile
		}
		if d := v.Verdict.First; d != nil {
			j.FirstDifference = &diffJSON{d.Value, d.Text}
		}
		return WriteJSON(w, j)
	}
	if v.Baseline.Run.Runtime != nil {
		return v.runtimeVerify(w, format)
	}
	if format == TableFormat {
		if err := v.writeHeadline(w); err != nil {
			return err
		}
	}
	t := Table{Header: []string{"item", "baseline", "planned", ""}, Right: []bool{false, true, true, false},
		Fit: []Fit{Wrap, Whole, Whole, Wrap}}
	a, b := v.Verdict.Baseline, v.Verdict.Planned
	if v.Parts != "" {
		t.Add("in parts", "", "", v.Parts)
	}
	t.Add("predicted live", Bytes(a.Predicted.Live), Bytes(b.Predicted.Live), "")
	t.Add("planned arena", Bytes(a.Predicted.Arena), Bytes(b.Predicted.Arena), "")
	t.Add("measured arena", Bytes(a.Measured.Arena), Bytes(b.Measured.Arena), v.promise())
	if p := max(a.Predicted.Host, b.Predicted.Host); p > 0 {
		t.Add("on the host", Bytes(a.Measured.Host), Bytes(b.Measured.Host), "values that move there; "+
			relative(b.Measured.Host-b.Predicted.Host))
		t.Add("waited for moves", duration(a.Measured.Moved.Waited), duration(b.Measured.Moved.Waited), "in all steps")
	}
	if a.Measured.Dynamic > 0 || b.Measured.Dynamic > 0 {
		t.Add("beside the plan", Bytes(a.Measured.Dynamic), Bytes(b.Measured.Dynamic),
			"values whose size depends on data, and subgraphs")
	}
	if x, y := newLibraryJSON(a), newLibraryJSON(b); x != nil && y != nil && max(x.Workspace, y.Workspace) > 0 {
		t.Add("cuDNN workspace", Bytes(x.Workspace), Bytes(y.Workspace),
			"of the arena; the planned graph's "+y.clamped())
	}
	if a.Resident > 0 {
		t.Add("process", Bytes(a.Resident), Bytes(b.Resident), "VmHWM - VmRSS before the first step")
	}
	t.Add("inputs and weights", Bytes(a.Predicted.Persistent), Bytes(b.Predicted.Persistent), "not "+
		"included in other lines")
	if !v.Baseline.Virtual {
		t.timeRows(v.Verdict)
	}
	for _, remark := range b.Remarks {
		t.Add("device", "", "", remark)
	}
	if v.Predicted > 0 {
		t.Add("predicted time", "", fmt.Sprintf("%.3f times", v.Predicted), costNote(v.Profile))
	}
	return t.WriteAs(w, format)
}

// timeRows adds the times of a step and the slowdown, each beside the times that it is computed
// from.
func (t *Table) timeRows(v *verify.Verdict) {
	a, b, s := v.Baseline, v.Planned, v.Slowdown()
	if len(a.Times) == 0 || len(b.Times) == 0 {
		return
	}
	note := fmt.Sprintf("medians of %d steps", len(b.Times))
	switch {
	case s.Pairs == 0 && len(b.Times) == 1:
		note = fmt.Sprintf("%.3f times, from one step of each; measure more with -r 5", s.Ratio)
	case s.Pairs == 0:
		note += fmt.Sprintf(", %.3f times: one graph ran after the other", s.Ratio)
	}
	t.Add("time of a step", duration(a.Median()), duration(b.Median()), note)
	if s.Pairs > 0 {
		t.Add("slowdown", duration(s.Baseline), duration(s.Planned),
			fmt.Sprintf("%.3f times: the median of %d paired ratios (%.3f to %.3f)", s.Ratio, s.Pairs, s.Least, s.Most))
	}
}

// promise reports whether the measured arena is the planned one.
func (v *VerifyView) promise() string {
	for _, r := range []*verify.Run{v.Verdict.Baseline, v.Verdict.Planned} {
		if r.Measured.Arena != r.Predicted.Arena {
			return "differs from the plan"
		}
	}
	return "as planned, to the byte"
}

// writeHeadline writes the answer and an empty line.
func (v *VerifyView) writeHeadline(w io.Writer) error {
	if err := Paragraph(w, v.headline()); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// otherDraws explains why numbers drawn by ONNX Runtime must differ; "" if it draws none.
func (v *VerifyView) otherDraws() string {
	if v.DrawnInParts == 0 || v.Planned.Run.Runtime == nil {
		return ""
	}
	return fmt.Sprintf(" In ONNX Runtime %d random %s in parts %s other numbers than the whole: compare "+
		"with -e cpu, or with dropout off.", v.DrawnInParts,
		plural(v.DrawnInParts, "node", "nodes"), plural(v.DrawnInParts, "draws", "draw"))
}

func (v *VerifyView) headline() string {
	outputs := len(v.Verdict.Baseline.Outputs)
	how := "within the tolerance"
	if v.Bitwise {
		how = "bit for bit"
	}
	if v.Baseline.Virtual {
		return fmt.Sprintf("No values were computed on %s: peaks are counted, and no outputs are "+
			"compared.\n",
			v.Baseline.Backend)
	}
	if !v.Verdict.Equal {
		return fmt.Sprintf("DIFFERENT: %s.%s\n", v.Verdict.First, v.otherDraws())
	}
	text := fmt.Sprintf("Equal: all %d outputs, %s, on %d %s.",
		outputs, how, v.Seeds, plural(v.Seeds, "set of inputs", "sets of inputs"))
	if !v.Bitwise && v.Parts != "" && v.Verdict.MaxAbs > 0 {
		text = fmt.Sprintf("Equal within the tolerance, not bit-equal: all %d outputs on %d %s; the largest "+
			"difference is %.3g.", outputs, v.Seeds, plural(v.Seeds, "set of inputs", "sets of inputs"),
			v.Verdict.MaxAbs)
	}
	switch {
	case v.Unchanged && v.Asked:
		return text + " The selection recomputes no node: both graphs are the same.\n"
	case v.Unchanged:
		return text + " No recomputation is selected, so both graphs are the same: select " +
			"a level, a configuration or a budget.\n"
	}
	return text + fmt.Sprintf(" Saved: %s of %s (%s).\n", Bytes(v.saved()), Bytes(v.needed(v.Verdict.Baseline)),
		Percent(float64(v.saved())/math.Max(1, float64(v.needed(v.Verdict.Baseline)))))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
