package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"memopt/graph/live"
	"memopt/planner"
	"memopt/view/timeline"
)

// A chart has chartLines lines of characters with levels heights each. It is drawn if there are at
// least leastChart columns, and is at most mostChart wide.
const (
	chartLines = 8
	levels     = 8
	leastChart = 60
	mostChart  = 100
)

// filled are characters that are filled to so many eighths.
var filled = []rune(" ▁▂▃▄▅▆▇█")

// beyond stands for bytes of the baseline above the plan.
const beyond = '░'

// timeChart draws the live bytes over the time of a step, and those of the baseline beyond them. It
// draws no chart on a screen of fewer columns than leastChart, or if sizes are unknown.
func timeChart(w io.Writer, p *planner.Plan, columns int) error {
	if columns < leastChart || p.Sizes == nil {
		return nil
	}
	planned, err := timeline.Of(p)
	if err != nil {
		return err
	}
	base, err := timeline.Baseline(p)
	if err != nil {
		return err
	}
	c := chart{seconds: max(planned.Seconds(), base.Seconds()),
		most: max(totalAt(planned, int32(planned.Peak)), totalAt(base, int32(base.Peak)))}
	label := Bytes(c.most)
	c.width = min(columns, mostChart) - len(label) - 2
	b := bytes.NewBufferString("\n")
	title := fmt.Sprintf("All that is live in a step of %s %s", duration(nanoseconds(c.seconds)),
		costNote(p.ProfileName()))
	if err := Paragraph(b, title); err != nil {
		return err
	}
	c.rows(b, label, c.heights(planned), c.heights(base))
	fmt.Fprintf(b, "%*s └%s\n", len(label), "0 B", c.axis(planned))
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	legend := "█ the plan"
	if c.backward {
		legend += ", ┴ where its backward half begins"
	}
	if p.Rewrites() {
		legend += ", ░ the rest of the baseline"
	}
	return Paragraph(w, legend)
}

// chart is the data of a chart.
type chart struct {
	width    int
	seconds  float64
	most     int64
	backward bool // the axis shows where the backward half begins
}

// totalAt is the live bytes at a step; 0 for no step.
func totalAt(t *timeline.Timeline, step int32) int64 {
	if step < 0 || int(step) >= len(t.Steps) {
		return 0
	}
	return t.Persistent.Sum() + t.Steps[step].Live.Sum()
}

// heights are the bytes of a timeline by column, as levels from the bottom.
func (c *chart) heights(t *timeline.Timeline) []int {
	out := make([]int, c.width)
	for i, at := range t.Bins(c.width, c.seconds) {
		if n := totalAt(t, at); n > 0 {
			out[i] = max(1, int(float64(n)/float64(c.most)*chartLines*levels+0.5))
		}
	}
	return out
}

// rows writes the lines of the chart, the highest first.
func (c *chart) rows(b *bytes.Buffer, label string, planned, base []int) {
	for row := chartLines - 1; row >= 0; row-- {
		line := make([]rune, c.width)
		for i := range line {
			if h := min(max(planned[i]-row*levels, 0), levels); h == 0 && base[i]-row*levels >= levels/2 {
				line[i] = beyond
			} else {
				line[i] = filled[h]
			}
		}
		edge := '│'
		if row == chartLines-1 {
			edge = '┤'
		} else {
			label = strings.Repeat(" ", len(label))
		}
		fmt.Fprintf(b, "%s %c%s\n", label, edge, strings.TrimRight(string(line), " "))
	}
}

// axis is the line below, with a mark where the backward half begins.
func (c *chart) axis(t *timeline.Timeline) string {
	line := []rune(strings.Repeat("─", c.width))
	for i, at := range t.Bins(c.width, c.seconds) {
		if at >= 0 && t.Steps[at].Phase != live.ForwardPhase {
			line[i], c.backward = '┴', true
			break
		}
	}
	return string(line)
}
