package sweep

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"memopt/view/figure"
	"memopt/view/report"
)

// Costs charts the price of lower budgets: the added time of a step over the budget, a line per
// model, and per combination of the other values that vary. Budgets are shares if all of them are;
// else bytes, inputs and weights included.
func (s *Summary) Costs() (*figure.Chart, error) {
	c := &figure.Chart{Title: "Cost of budgets", X: "budget, % of the baseline's peak", Y: "more time, %"}
	shares := true
	for _, r := range s.Rows {
		shares = shares && (r.budget == "" || strings.HasSuffix(r.budget, "%"))
	}
	if c.Bytes = !shares; c.Bytes {
		c.X = "budget"
	}
	lines := map[string][][2]float64{}
	for i := range s.Rows {
		r := &s.Rows[i]
		x, ok := r.budgetAt(shares)
		y := r.Result.overhead()
		if !ok || y == nil || r.Outcome() != Done {
			continue
		}
		name := s.lineName(r)
		lines[name] = append(lines[name], [2]float64{x, 100 * *y})
	}
	if len(lines) == 0 {
		return nil, errors.New("no finished point has a budget and an overhead; wanted points of plan or verify with " +
			"\"budget\" among their flags")
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		points := lines[name]
		slices.SortStableFunc(points, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
		c.Lines = append(c.Lines, figure.Line{Name: name, Points: points})
	}
	return c, nil
}

// budgetAt is where a point's budget lies on the axis.
func (r *Row) budgetAt(shares bool) (x float64, ok bool) {
	number, share := strings.CutSuffix(r.budget, "%")
	if !share {
		n, err := report.ParseBytes(r.budget)
		return float64(n), err == nil && r.budget != ""
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || shares {
		return x, err == nil
	}
	base, rest := r.Result.baseline(), r.Result.persistent()
	if base == nil || rest == nil {
		return 0, false
	}
	return *base*x/100 + *rest, true
}

// lineName is the model, with the varying values beside it and the budget.
func (s *Summary) lineName(r *Row) string {
	parts := []string{strings.Join(r.Models, " ")}
	for name, v := range r.Dims {
		if s.varies(func(o *Row) string { return words(map[string]any{name: o.Dims[name]}) }) {
			parts = append(parts, words(map[string]any{name: v}))
		}
	}
	for name, v := range r.Flags {
		if name != "budget" && s.varies(func(o *Row) string { return words(map[string]any{name: o.Flags[name]}) }) {
			parts = append(parts, words(map[string]any{name: v}))
		}
	}
	slices.Sort(parts[1:])
	return strings.Join(parts, " ")
}

// varies reports whether rows differ in something.
func (s *Summary) varies(of func(*Row) string) bool {
	for i := range s.Rows {
		if of(&s.Rows[i]) != of(&s.Rows[0]) {
			return true
		}
	}
	return false
}
