package report

import (
	"fmt"

	"memopt/planner"
)

// FitSentence compares a plan with a budget, without a full stop: the bytes that it takes, those
// that it may take, and the difference.
func FitSentence(f *planner.Fit) string {
	what, takes, limit, share := "arena", f.Arena, f.Limit, ""
	switch {
	case f.Budget.Total > 0:
		what, takes, limit = "total", f.Arena+f.Persistent, f.Budget.Total
	case f.Budget.Share > 0:
		share = fmt.Sprintf(" (%s)", Percent(f.Budget.Share))
	}
	if f.Budget.ORTModule {
		if what == "arena" {
			what = "peak"
		}
		what += " in ORTModule"
	} else if f.Budget.Runtime {
		what += " in stock ONNX Runtime"
	}
	difference := Bytes(f.Over()) + " over"
	if f.Fits() {
		difference = Bytes(f.Spare()) + " to spare"
	}
	return fmt.Sprintf("%s %s, budget %s%s: %s", what, Bytes(takes), Bytes(limit), share, difference)
}

// fitJSON is how a plan stands to its budget.
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
	if f.Budget.ORTModule {
		in = "ortmodule"
	} else if f.Budget.Runtime {
		in = "ort"
	}
	return &fitJSON{in, f.Fits(), f.Limit, f.Arena, f.Over(), f.Spare()}
}
