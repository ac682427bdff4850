package figure

import (
	"fmt"
	"io"
	"slices"

	"memopt/view/report"
	"memopt/view/timeline"
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
	s.figure = &figure{title: report.Plain(title), x: axis{over, 0, s.span},
		y: axis{"live bytes, " + s.bytes.name, 0, max(float64(most), 1) / s.bytes.each * 1.02}}
	s.stack(planned)
	if baseline != nil {
		s.line("baseline", s.total(baseline), nil)
	}
	for i, m := range marks {
		y := float64(m.Bytes) / s.bytes.each
		s.line(m.Name, []point{{0, y}, {s.span, y}}, dashes[i%len(dashes)])
	}
	return s.write(w, format, words)
}

// dashes tell lines apart.
var dashes = [][]float64{{6, 3}, {2, 2}, {8, 3, 2, 3}}

// stepFigure is a figure of a step that is being drawn.
type stepFigure struct {
	*figure
	bytes   unit
	seconds float64
	span    float64 // of the horizontal axis
}

// stack draws the live bytes by kind, each kind above those before it, without empty kinds.
func (s *stepFigure) stack(t *timeline.Timeline) {
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
		outline, back := s.steps(above), s.steps(below)
		slices.Reverse(back)
		kind := timeline.Kind(k)
		s.shapes = append(s.shapes, shape{name: kind.String(), points: append(outline, back...), area: kind.Color()})
		below = above
	}
}

// total is all that is live, as a line to the end of the step.
func (s *stepFigure) total(t *timeline.Timeline) []point {
	var out []int64
	for _, step := range t.Bins(bins, s.seconds) {
		if step < 0 {
			break
		}
		out = append(out, t.Persistent.Sum()+t.Steps[step].Live.Sum())
	}
	return s.steps(out)
}

// steps is a line of level pieces, one for each span of time; equal neighbours are one piece.
func (s *stepFigure) steps(heights []int64) (points []point) {
	x := func(i int) float64 { return s.span * float64(i) / bins }
	for i, h := range heights {
		y := float64(h) / s.bytes.each
		if i > 0 && h == heights[i-1] {
			points[len(points)-1].x = x(i + 1)
			continue
		}
		points = append(points, point{x(i), y}, point{x(i + 1), y})
	}
	return points
}

// line adds a black line; dashes is nil for one without gaps.
func (s *stepFigure) line(name string, points []point, dashes []float64) {
	s.shapes = append(s.shapes, shape{name: name, points: points, line: stroke{"#000000", 1, dashes}})
}
