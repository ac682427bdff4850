package report

import (
	"fmt"
	"io"

	"memopt/planner"
)

// FitSentence says how a plan stands to a budget that it was held to, without a full stop: what it
// takes, what it may take, and the bytes between.
func FitSentence(f *planner.Fit) string {
	where, what, takes, allowed := "", "the arena takes", f.Arena, "the budget is "+Bytes(f.Limit)
	if f.Budget.Runtime {
		where = "in stock ONNX Runtime "
	}
	switch {
	case f.Budget.Total > 0:
		what, takes = "arena, inputs and weights take", f.Arena+f.Persistent
		allowed = "the budget is " + Bytes(f.Budget.Total)
	case f.Budget.Share > 0:
		allowed = fmt.Sprintf("the budget of %s allows %s", Percent(f.Budget.Share), Bytes(f.Limit))
	}
	difference := Bytes(f.Over()) + " over"
	if f.Fits() {
		difference = Bytes(f.Spare()) + " to spare"
	}
	return fmt.Sprintf("%s%s %s, %s: %s", where, what, Bytes(takes), allowed, difference)
}

// fitAnswer is the sentence that answers whether a plan fits the budget that it was held to.
func fitAnswer(w io.Writer, p *planner.Plan) error {
	f := p.Fit
	if f == nil {
		return nil
	}
	yes := "Fits"
	if !f.Fits() {
		yes = "Does not fit"
	}
	_, err := fmt.Fprintf(w, "%s: %s.\n\n", yes, FitSentence(f))
	return err
}

// fitJSON is how a plan stands to a budget that it was held to.
type fitJSON struct {
	In          string `json:"in"`
	Fits        bool   `json:"fits"`
	LimitBytes  int64  `json:"limit_bytes"`
	NeededBytes int64  `json:"needed_bytes"`
	OverBytes   int64  `json:"over_bytes"`
	SpareBytes  int64  `json:"spare_bytes"`
}

func newFitJSON(f *planner.Fit) *fitJSON {
	if f == nil {
		return nil
	}
	in := "memopt"
	if f.Budget.Runtime {
		in = "ort"
	}
	return &fitJSON{in, f.Fits(), f.Limit, f.Arena, f.Over(), f.Spare()}
}
