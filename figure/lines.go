package figure

import (
	"fmt"
	"io"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"memopt/report"
)

// Chart is lines over one axis.
type Chart struct {
	Title string
	X, Y  string // names of the axes
	Bytes bool   // X is bytes
	Lines []Line
}

// Line is points of rising X.
type Line struct {
	Name   string
	Points [][2]float64
}

// lineColors are told apart with all forms of colour vision (Okabe and Ito); further lines are dashed.
var lineColors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// Lines draws lines with a dot at each point.
func Lines(w io.Writer, format Format, c *Chart) error {
	u := unit{"", 1}
	if c.Bytes {
		most := 0.0
		for _, l := range c.Lines {
			for _, p := range l.Points {
				most = max(most, p[0])
			}
		}
		u = unitOf(byteUnits, most)
		u.name = ", " + u.name
	}
	f := newFigure(report.Plain(c.Title), c.X+u.name, c.Y)
	words := fmt.Sprintf("%s over %s:", c.Y, f.X.Label.Text)
	f.X.Max, f.Y.Max = 1, 1
	for i, l := range c.Lines {
		points := make(plotter.XYs, len(l.Points))
		words += " " + report.Plain(l.Name) + ":"
		for k, p := range l.Points {
			points[k] = plotter.XY{X: p[0] / u.each, Y: p[1]}
			f.X.Max, f.Y.Max, f.Y.Min = max(f.X.Max, points[k].X*1.02), max(f.Y.Max, p[1]*1.05), min(f.Y.Min, p[1]*1.05)
			words += fmt.Sprintf(" %.4g at %.4g;", p[1], points[k].X)
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = hex(lineColors[i%len(lineColors)]), vg.Points(1.5)
		if i >= len(lineColors) {
			line.Dashes = dashes[(i/len(lineColors)-1)%len(dashes)]
		}
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(3)
		f.Add(line, dots)
		f.legend.Add(report.Plain(l.Name), line, dots)
	}
	return f.write(w, format, words)
}
