package report

import (
	"fmt"
	"io"
	"strings"

	"memopt/planner"
)

// answer sums a plan up in three sentences: whether it fits, the peak before and after, and the
// price. With unbound symbols it is one sentence that names them.
func answer(p *planner.Plan, view PlanView) []string {
	if p.Base == nil {
		symbols := strings.Join(p.Unbound, ", ")
		if view.Bind != "" {
			symbols += " with " + view.Bind
		}
		return []string{fmt.Sprintf("Sizes are not known: bind %s to see bytes, the peak and the price.", symbols)}
	}
	return []string{fitsText(p, view), peakText(p), priceText(p)}
}

// fitsText reports whether the plan fits its budget, or names the request without a budget.
func fitsText(p *planner.Plan, view PlanView) string {
	f := p.Fit
	switch {
	case f != nil && f.Fits():
		return "Fits: " + FitSentence(f) + "."
	case f != nil:
		return "Does not fit: " + FitSentence(f) + "."
	case p.Options.Budget() != nil:
		return "Fits: nodes stash no more than they may."
	case !p.Options.Enabled():
		return "No recomputation: no budget, level, configuration or plan was given."
	case view.ConfigPath != "":
		return fmt.Sprintf("No budget was given: these are the clusters of %s.", view.ConfigPath)
	case p.Options.Level() > 0:
		return fmt.Sprintf("No budget was given: this is level %d.", p.Options.Level())
	case p.Options.Strategy == nil:
		return "No budget was given: these are the values whose recomputation was demanded."
	}
	return "No budget was given: this is the plan as it was saved."
}

// peakText is the peak before and after.
func peakText(p *planner.Plan) string {
	before, after, where := p.Baseline().Base.Peak.Bytes, p.Planned.Peak.Bytes, "Peak"
	total := p.PeakRecord().TotalBytes
	if s := p.Session; s != nil {
		before, after, where = s.Base, s.Planned, "Peak in ORTModule"
		total = s.Planned + p.Persistent
	}
	whole := fmt.Sprintf("with inputs and weights %s", Bytes(total))
	if p.Recompute.Nodes == 0 && p.Whole == nil && before == after {
		return fmt.Sprintf("%s: %s; %s.", where, Bytes(before), whole)
	}
	change := "no less"
	if before != after && before > 0 {
		share := 1 - float64(after)/float64(before)
		change = Percent(share) + " less"
		if share < 0 {
			change = Percent(-share) + " more"
		}
	}
	return fmt.Sprintf("%s: %s → %s (%s); %s.", where, Bytes(before), Bytes(after), change, whole)
}

// priceText is the cost of the plan.
func priceText(p *planner.Plan) string {
	text := fmt.Sprintf("Price: +%s time %s (an estimate); %s recomputed %s", Percent(p.Overhead),
		costNote(p.ProfileName()), Thousands(int64(p.Recompute.Nodes)),
		plural(p.Recompute.Nodes, "node", "nodes"))
	if parts := p.FissionText(); parts != "" {
		text += "; " + parts
	}
	return text + "."
}

// writeAnswer writes the sentences, a line each if they fit.
func writeAnswer(w io.Writer, p *planner.Plan, view PlanView) error {
	for _, text := range answer(p, view) {
		if err := Paragraph(w, text); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}
