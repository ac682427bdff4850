package figure

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"memopt/report"
	"memopt/timeline"
)

// bins is how many spans of time a figure tells apart: about as many as its dots are wide.
const bins = 800

// Mark is a number of bytes that a figure shows as a line from side to side.
type Mark struct {
	Name  string // in the legend
	Bytes int64
}

// Step draws all that is live over the time of a step, stacked by kind, with the baseline's total and
// marks as lines. baseline may be nil.
func Step(w io.Writer, format Format, title string, planned, baseline *timeline.Timeline, marks []Mark) error {
	seconds, most := planned.Seconds(), planned.Persistent.Sum()+planned.PeakBytes()
	words := fmt.Sprintf("The plan takes at most %s.", report.Bytes(most))
	if baseline != nil {
		before := baseline.Persistent.Sum() + baseline.PeakBytes()
		seconds, most = max(seconds, baseline.Seconds()), max(most, before)
		words += fmt.Sprintf(" The baseline takes at most %s.", report.Bytes(before))
	}
	for _, m := range marks {
		most = max(most, m.Bytes)
		words += fmt.Sprintf(" %s: %s.", m.Name, report.Bytes(m.Bytes))
	}
	s := stepFigure{bytes: unitOf(byteUnits, float64(most)), seconds: seconds, span: 1}
	over := "nodes, as a share" // that take no time
	if seconds > 0 {
		u := unitOf(timeUnits, seconds)
		s.span, over = seconds/u.each, "estimated time, "+u.name
	}
	s.figure = newFigure(report.Plain(title), over, "live bytes, "+s.bytes.name)
	s.X.Max, s.Y.Max = s.span, max(float64(most), 1)/s.bytes.each*1.02
	if err := s.stack(planned); err != nil {
		return err
	}
	if baseline != nil {
		if err := s.line(s.total(baseline), "baseline", color.Black, nil); err != nil {
			return err
		}
	}
	for i, m := range marks {
		y := float64(m.Bytes) / s.bytes.each
		points := plotter.XYs{{X: 0, Y: y}, {X: s.X.Max, Y: y}}
		if err := s.line(points, m.Name, color.Black, dashes[i%len(dashes)]); err != nil {
			return err
		}
	}
	return s.write(w, format, words)
}

// dashes tell lines apart.
var dashes = [][]vg.Length{{6, 3}, {2, 2}, {8, 3, 2, 3}}

// stepFigure is a figure of a step that is being drawn.
type stepFigure struct {
	*figure
	bytes   unit
	seconds float64
	span    float64 // of the horizontal axis
}

// stack draws what is live by kind, each kind above those before it; kinds that never are, are left out.
func (s *stepFigure) stack(t *timeline.Timeline) error {
	at := t.Bins(bins, s.seconds)
	below := make([]int64, bins)
	for k := range t.Persistent {
		above, any := make([]int64, bins), false
		for i, step := range at {
			if above[i] = below[i]; step >= 0 {
				above[i] += t.Persistent[k] + t.Steps[step].Live[k]
			}
			any = any || above[i] > below[i]
		}
		if !any {
			continue
		}
		if err := s.area(timeline.Kind(k), below, above); err != nil {
			return err
		}
		below = above
	}
	return nil
}

// area draws what lies between two heights.
func (s *stepFigure) area(k timeline.Kind, below, above []int64) error {
	points := s.steps(above)
	back := s.steps(below)
	for i := range back {
		points = append(points, back[len(back)-1-i])
	}
	p, err := plotter.NewPolygon(points)
	if err != nil {
		return err
	}
	p.Color = hex(k.Color())
	p.LineStyle = draw.LineStyle{}
	s.Add(p)
	s.legend.Add(k.String(), p)
	return nil
}

// total is all that is live, as a line to the end of the step.
func (s *stepFigure) total(t *timeline.Timeline) plotter.XYs {
	var out []int64
	for _, step := range t.Bins(bins, s.seconds) {
		if step < 0 {
			break
		}
		out = append(out, t.Persistent.Sum()+t.Steps[step].Live.Sum())
	}
	return s.steps(out)
}

// steps is a line of level pieces, one for each span of time; what does not change is one piece.
func (s *stepFigure) steps(heights []int64) (points plotter.XYs) {
	x := func(i int) float64 { return s.span * float64(i) / bins }
	for i, h := range heights {
		y := float64(h) / s.bytes.each
		if i > 0 && h == heights[i-1] {
			points[len(points)-1].X = x(i + 1)
			continue
		}
		points = append(points, plotter.XY{X: x(i), Y: y}, plotter.XY{X: x(i + 1), Y: y})
	}
	return points
}

// line draws a line; no dashes: a solid one.
func (s *stepFigure) line(points plotter.XYs, name string, c color.Color, dashes []vg.Length) error {
	l, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	l.Color, l.Dashes, l.Width = c, dashes, vg.Points(1)
	s.Add(l)
	s.legend.Add(name, l)
	return nil
}
