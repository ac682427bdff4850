package figure

import (
	"fmt"
	"io"

	"memopt/planner"
	"memopt/view/report"
)

// Curve draws the cost of lower memory: for each budget of a curve the inputs, weights and arena of
// its plan, and the added time of a step, beside the lower bound on it.
func Curve(w io.Writer, format Format, title string, c *planner.Curve) error {
	var most int64
	for i := range c.Points {
		most = max(most, c.Persistent+c.Points[i].Arena)
	}
	u := unitOf(byteUnits, float64(most))
	f := &figure{title: report.Plain(title), y: axis{"more time, %", 0, 1},
		x: axis{"inputs, weights and arena, " + u.name, float64(most) / u.each, float64(most) / u.each * 1.02}}
	points, bound := make([]point, len(c.Points)), make([]point, len(c.Points))
	words := "More time by memory:"
	for i := range c.Points {
		p := &c.Points[i]
		x := float64(c.Persistent+p.Arena) / u.each
		points[i], bound[i] = point{x, 100 * p.Overhead}, point{x, 100 * p.LowerBound}
		f.x.min, f.y.max = min(f.x.min, x*0.98), max(f.y.max, 105*p.Overhead)
		words += fmt.Sprintf(" %s at %s;", report.Percent(p.Overhead), report.Bytes(c.Persistent+p.Arena))
	}
	f.shapes = []shape{
		{name: "lower bound", points: bound, line: stroke{"#000000", 1, dashes[0]}},
		{name: "plans", points: points, line: stroke{"#0072b2", 1.5, nil}, dotted: true},
	}
	return f.write(w, format, words)
}
