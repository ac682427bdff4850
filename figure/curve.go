package figure

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"memopt/planner"
	"memopt/report"
)

// Curve draws what lower memory costs: for each budget of a curve the inputs, weights and arena of its
// plan, and how much longer a step takes, beside the bound that no plan goes below.
func Curve(w io.Writer, format Format, title string, c *planner.Curve) error {
	var most int64
	for i := range c.Points {
		most = max(most, c.Persistent+c.Points[i].Arena)
	}
	u := unitOf(byteUnits, float64(most))
	f := newFigure(report.Plain(title), "inputs, weights and arena, "+u.name, "more time, %")
	f.X.Min, f.X.Max = float64(most)/u.each, float64(most)/u.each*1.02
	f.Y.Max = 1
	points, bound := make(plotter.XYs, len(c.Points)), make(plotter.XYs, len(c.Points))
	words := "More time by memory:"
	for i := range c.Points {
		p := &c.Points[i]
		x := float64(c.Persistent+p.Arena) / u.each
		points[i], bound[i] = plotter.XY{X: x, Y: 100 * p.Overhead}, plotter.XY{X: x, Y: 100 * p.LowerBound}
		f.X.Min, f.Y.Max = min(f.X.Min, x*0.98), max(f.Y.Max, 105*p.Overhead)
		words += fmt.Sprintf(" %s at %s;", report.Percent(p.Overhead), report.Bytes(c.Persistent+p.Arena))
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = hex("#0072b2"), vg.Points(1.5)
	dots.Color, dots.Shape, dots.Radius = hex("#0072b2"), draw.CircleGlyph{}, vg.Points(3)
	lower, err := plotter.NewLine(bound)
	if err != nil {
		return err
	}
	lower.Color, lower.Dashes, lower.Width = color.Black, dashes[0], vg.Points(1)
	f.Add(lower, line, dots)
	f.legend.Add("plans", line, dots)
	f.legend.Add("lower bound", lower)
	return f.write(w, format, words)
}
