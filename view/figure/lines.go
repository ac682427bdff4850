package figure

import (
	"fmt"
	"io"

	"memopt/view/report"
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
	f := &figure{title: report.Plain(c.Title), x: axis{c.X + u.name, 0, 1}, y: axis{c.Y, 0, 1}}
	words := fmt.Sprintf("%s over %s:", c.Y, f.x.name)
	for i, l := range c.Lines {
		s := shape{name: report.Plain(l.Name), dotted: true, line: stroke{lineColors[i%len(lineColors)], 1.5, nil}}
		if i >= len(lineColors) {
			s.line.dashes = dashes[(i/len(lineColors)-1)%len(dashes)]
		}
		words += " " + s.name + ":"
		for _, p := range l.Points {
			q := point{p[0] / u.each, p[1]}
			s.points = append(s.points, q)
			f.x.max, f.y.max, f.y.min = max(f.x.max, q.x*1.02), max(f.y.max, q.y*1.05), min(f.y.min, q.y*1.05)
			words += fmt.Sprintf(" %.4g at %.4g;", q.y, q.x)
		}
		f.shapes = append(f.shapes, s)
	}
	return f.write(w, format, words)
}
