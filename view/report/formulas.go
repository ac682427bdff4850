package report

import (
	"fmt"
	"io"
	"strings"

	"memopt/hint"
	"memopt/planner"
	"memopt/planner/envelope"
)

// Formulas writes the peaks of a plan without sizes as formulas over ranges of its symbols: which
// node peaks where, and how far that is from simulations. It lists at most so many parts of each;
// -1: all.
func Formulas(w io.Writer, format Format, p *planner.Plan, most int) error {
	f := p.Formulas
	if f == nil || format != TableFormat && format != MarkdownFormat {
		return nil
	}
	left := 0
	for _, x := range []struct {
		title   string
		formula *planner.Formula
	}{{"Peak of live bytes", f.Base}, {"Peak of live bytes with one plan for all sizes", f.Planned}} {
		if x.formula == nil {
			continue
		}
		t, more := formulaTable(p, x.title, x.formula, most)
		left += more
		if err := t.WriteAs(w, format); err != nil {
			return err
		}
		if format == TableFormat {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
	}
	return Sentences(w, format, formulaText(p, left)...)
}

// formulaText is the text that goes with the formulas.
func formulaText(p *planner.Plan, left int) []string {
	var list []string
	f := p.Formulas
	if left > 0 {
		list = append(list, fmt.Sprintf("%d more parts: -v lists them.", left))
	}
	if text := boundText(f); text != "" {
		list = append(list, text)
	}
	if _, fixed := p.Options.Strategy.(*planner.PlanFile); f.Planned != nil && !fixed {
		list = append(list, "One plan for all sizes runs again whatever it may; with sizes, plan chooses for these.")
	}
	list = append(list, fmt.Sprintf("Inputs and weights take %v bytes besides; the arena adds the rounding "+
		"of buffers and gaps between them.", f.Base.Persistent))
	list = append(list, fmt.Sprintf("Largest error against simulation at %d random sizes (seed %d): %d bytes.",
		f.Points, f.Seed, f.Error))
	if text := f.AssumedText(); text != "" {
		list = append(list, fmt.Sprintf("Assumed: %s; %v gives another range.", text,
			hint.Dims.With(f.Assumed[0]+"=1..64")))
	}
	return list
}

// formulaTable lists the parts of a formula, and returns how many it leaves out.
func formulaTable(p *planner.Plan, title string, f *planner.Formula, most int) (t *Table, left int) {
	t = &Table{Title: title, Header: []string{"Where", "Bytes", "Worst node"}, Fit: []Fit{Wrap, Wrap, Cut}}
	for i := range f.Pieces {
		if most >= 0 && i >= most {
			return t, len(f.Pieces) - i
		}
		piece := &f.Pieces[i]
		bytes, nodes := pieceText(p, piece)
		if piece.Bound {
			bytes = "≤ " + bytes
		}
		t.Add(piece.Box.String(), bytes, nodes)
	}
	return t, 0
}

// pieceText prints the peak of a part of a box and its node. Among several, the largest counts.
func pieceText(p *planner.Plan, piece *envelope.Piece) (bytes, nodes string) {
	var formulas, names []string
	for _, l := range piece.Peaks {
		formulas = append(formulas, l.Bytes.String())
		names = append(names, p.Analysis.Graph.NodeLabel(l.Node))
	}
	if len(formulas) == 1 {
		return formulas[0], names[0]
	}
	return "Max(" + strings.Join(formulas, ", ") + ")", strings.Join(names, " or ")
}

// boundText names the parts of formulas that are upper bounds; "" if all are exact.
func boundText(f *planner.Formulas) string {
	if f.Base.Exact() && (f.Planned == nil || f.Planned.Exact()) {
		return ""
	}
	return "Parts marked ≤ are upper bounds: exact formulas would be too many there. A narrower range, or one number " +
		"for a symbol, gets exact ones."
}

// formulasJSON has the peaks of a plan without sizes; null where sizes are known.
type formulasJSON struct {
	Ranges     map[string][2]int64 `json:"ranges"`
	Assumed    []string            `json:"assumed"`
	Persistent string              `json:"persistent_expr"`
	Baseline   []pieceJSON         `json:"baseline"`
	Planned    []pieceJSON         `json:"planned"`
	Exact      bool                `json:"exact"`
	Points     int                 `json:"points"`
	Seed       int64               `json:"seed"`
	Error      int64               `json:"largest_error_bytes"`
}

type pieceJSON struct {
	Ranges map[string][2]int64 `json:"ranges"`
	Live   string              `json:"live_expr"`
	Total  string              `json:"total_expr"`
	Exact  bool                `json:"exact"`
	Nodes  []string            `json:"nodes"`
}

func newFormulasJSON(p *planner.Plan) *formulasJSON {
	f := p.Formulas
	if f == nil {
		return nil
	}
	return &formulasJSON{boxJSON(f.Base.Box), nonNil(f.Assumed), f.Base.Persistent.String(), piecesJSON(p, f.Base),
		piecesJSON(p, f.Planned), boundText(f) == "", f.Points, f.Seed, f.Error}
}

func boxJSON(b envelope.Box) map[string][2]int64 {
	out := map[string][2]int64{}
	for _, a := range b {
		out[a.Symbol] = [2]int64{a.Lo, a.Hi}
	}
	return out
}

func piecesJSON(p *planner.Plan, f *planner.Formula) []pieceJSON {
	if f == nil {
		return nil
	}
	var list []pieceJSON
	for i := range f.Pieces {
		piece := &f.Pieces[i]
		j := pieceJSON{Ranges: boxJSON(piece.Box), Exact: !piece.Bound}
		j.Live, _ = pieceText(p, piece)
		var totals []string
		for _, l := range piece.Peaks {
			totals = append(totals, l.Bytes.Add(f.Persistent).String())
			j.Nodes = append(j.Nodes, p.Analysis.Graph.NodeLabel(l.Node))
		}
		if j.Total = totals[0]; len(totals) > 1 {
			j.Total = "Max(" + strings.Join(totals, ", ") + ")"
		}
		list = append(list, j)
	}
	return list
}
