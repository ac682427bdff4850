package report

import (
	"fmt"
	"io"

	"memopt/planner"
)

// spanTable compares the cost of a plan for ranges of sizes with those of plans for single ones.
func spanTable(w io.Writer, format Format, p *planner.Plan) error {
	s := p.Span
	if s == nil {
		return nil
	}
	t := &Table{Title: "One plan for " + s.Box.String(),
		Header: []string{"At", "Takes", "Overhead", "A plan for this alone"},
		Right:  []bool{false, true, true, true}}
	for _, x := range s.Prices {
		own := "no plan was found"
		if x.Own != nil {
			own = Percent(x.Own.Overhead)
		}
		t.Add(dimsText(x.Dims), Bytes(x.Total), Percent(x.Overhead), own)
	}
	if err := t.WriteAs(w, format); err != nil {
		return err
	}
	if format == TableFormat {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	parts := "Values share memory alike at all sizes, and the arena for the largest ones holds all others."
	if s.Parts > 1 {
		parts = fmt.Sprintf("The range has %d parts. Within a part values share memory alike, and the arena for its "+
			"largest sizes holds all others.", s.Parts)
	}
	return Sentences(w, format, fmt.Sprintf("Everywhere in the range it takes at most %s of the budget, at %s. %s",
		Bytes(s.Most), dimsText(s.Worst), parts))
}

type spanJSON struct {
	Ranges  map[string][2]int64 `json:"ranges"`
	Parts   int                 `json:"parts"`
	Most    int64               `json:"most_bytes"`
	Worst   map[string]int64    `json:"worst_dims"`
	Repairs int                 `json:"repairs"`
	Prices  []priceJSON         `json:"prices"`
}

type priceJSON struct {
	Dims     map[string]int64 `json:"dims"`
	Total    int64            `json:"total_bytes"`
	Overhead float64          `json:"overhead"`
	Own      *ownJSON         `json:"own"`
}

type ownJSON struct {
	Total    int64   `json:"total_bytes"`
	Overhead float64 `json:"overhead"`
}

func newSpanJSON(s *planner.Span) *spanJSON {
	if s == nil {
		return nil
	}
	j := &spanJSON{Ranges: boxJSON(s.Box), Parts: s.Parts, Most: s.Most, Worst: s.Worst, Repairs: s.Repairs}
	for _, x := range s.Prices {
		one := priceJSON{x.Dims, x.Total, x.Overhead, nil}
		if x.Own != nil {
			one.Own = &ownJSON{x.Own.Total, x.Own.Overhead}
		}
		j.Prices = append(j.Prices, one)
	}
	return j
}
