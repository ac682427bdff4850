package figure_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/planner"
	"memopt/planner/budget"
	"memopt/view/figure"
	"memopt/view/timeline"
)

// both returns the step of level 1 of an example, and its baseline.
func both(t *testing.T, name string) (planned, base *timeline.Timeline) {
	t.Helper()
	m, err := memopt.Example(name, memopt.Options{})
	require.NoError(t, err)
	p, err := m.Plan(context.Background(), memopt.Level(1), memopt.PlanOptions{})
	require.NoError(t, err)
	planned, err = timeline.Of(p.Plan)
	require.NoError(t, err)
	base, err = timeline.Baseline(p.Plan)
	require.NoError(t, err)
	return planned, base
}

func step(t *testing.T, f figure.Format, title string, planned, base *timeline.Timeline, marks ...figure.Mark) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, figure.Step(&b, f, title, planned, base, marks))
	return b.String()
}

// wellFormed reads a document to its end, and returns its texts.
func wellFormed(t *testing.T, text string) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		if data, ok := token.(xml.CharData); ok && strings.TrimSpace(string(data)) != "" {
			texts = append(texts, string(data))
		}
	}
}

// point is a corner of a shape, counted from the bottom left.
type point struct{ x, y float64 }

var corner = regexp.MustCompile(`[ML]([-0-9.e]+),([-0-9.e]+)`)

// corners returns those of all paths of a style that lie left of the legend.
func corners(t *testing.T, svg, style string) (list []point) {
	t.Helper()
	for _, path := range regexp.MustCompile(`<path d="([^"]*)" style="`+style).FindAllStringSubmatch(svg, -1) {
		for _, c := range corner.FindAllStringSubmatch(path[1], -1) {
			x, err := strconv.ParseFloat(c[1], 64)
			require.NoError(t, err)
			y, err := strconv.ParseFloat(c[2], 64)
			require.NoError(t, err)
			if x < 570 {
				list = append(list, point{x, 340.16 - y})
			}
		}
	}
	return list
}

// span is how high and how wide corners reach, and where they begin.
func span(list []point) (low, high, left, right float64) {
	low, left = 1e9, 1e9
	for _, p := range list {
		low, high, left, right = min(low, p.y), max(high, p.y), min(left, p.x), max(right, p.x)
	}
	return low, high, left, right
}

// TestStep: what is drawn is as high as the peaks and as wide as the times are, in proportion, and has a
// colour for each kind that is live.
func TestStep(t *testing.T) {
	for _, name := range []string{"transformer-small", "cnn", "mlp"} {
		planned, base := both(t, name)
		limit := (planned.PeakBytes() + base.PeakBytes()) / 2
		svg := step(t, figure.SVG, name, planned, base, figure.Mark{Name: "a limit", Bytes: limit})
		texts := strings.Join(wellFormed(t, svg), "\n")
		var all []point
		for k := range timeline.NumKinds {
			some := int64(planned.Persistent[k])
			for i := range planned.Steps {
				some = max(some, planned.Steps[i].Live[k])
			}
			list := corners(t, svg, "fill:"+strings.ToUpper(k.Color()))
			if some == 0 {
				require.Empty(t, list, k.String())
				continue
			}
			if 800*some > planned.PeakBytes() {
				require.NotEmpty(t, list, k.String())
				require.Contains(t, texts, "\n"+k.String()+"\n")
			}
			all = append(all, list...)
		}
		bottom, top, left, right := span(all)
		var lines []point
		for _, p := range corners(t, svg, "fill:none;stroke:#000000\"") {
			if p.x >= left-0.01 {
				lines = append(lines, p)
			}
		}
		_, before, _, until := span(lines)
		require.InDelta(t, float64(total(planned))/float64(total(base)), (top-bottom)/(before-bottom), 0.002)
		require.InDelta(t, planned.Seconds()/base.Seconds(), (right-left)/(until-left), 0.01)
		_, at, _, _ := span(corners(t, svg, "fill:none;stroke:#000000;stroke-dasharray"))
		require.InDelta(t, float64(limit)/float64(total(base)), (at-bottom)/(before-bottom), 0.002)
		require.Contains(t, texts, "a limit")
	}
}

func total(t *timeline.Timeline) int64 { return t.Persistent.Sum() + t.PeakBytes() }

// TestCurve: each point lies where its memory and its cost say.
func TestCurve(t *testing.T) {
	c := &planner.Curve{Persistent: 1 << 30, Points: []planner.ParetoPoint{
		{Arena: 1 << 30, Overhead: 0.5, LowerBound: 0.25}, {Arena: 2 << 30, Overhead: 0.2}, {Arena: 3 << 30}}}
	var b bytes.Buffer
	require.NoError(t, figure.Curve(&b, figure.SVG, "curve", c))
	texts := strings.Join(wellFormed(t, b.String()), "\n")
	require.Contains(t, texts, "50.0 % at 2.00 GiB; 20.0 % at 3.00 GiB; 0.0 % at 4.00 GiB;")
	list := corners(t, b.String(), "fill:none;stroke:#0072B2;stroke-width:1.5")
	require.Len(t, list, 3)
	require.InDelta(t, 0.5, (list[1].x-list[0].x)/(list[2].x-list[0].x), 1e-3)
	require.InDelta(t, 0.4, (list[1].y-list[2].y)/(list[0].y-list[2].y), 1e-3)
	bound := corners(t, b.String(), "fill:none;stroke:#000000;stroke-dasharray")
	require.InDelta(t, 0.5, (bound[0].y-list[2].y)/(list[0].y-list[2].y), 1e-3)
	for _, c := range []*planner.Curve{{}, {Points: make([]budget.ParetoPoint, 2)}} {
		require.NoError(t, figure.Curve(io.Discard, figure.SVG, "nothing", c))
		require.NoError(t, figure.Curve(io.Discard, figure.PNG, "nothing", c))
	}
}

// TestSame: the same data give the same bytes, in both formats, and PNG files are pictures.
func TestSame(t *testing.T) {
	planned, base := both(t, "mlp")
	for _, f := range []figure.Format{figure.SVG, figure.PNG} {
		first := step(t, f, "mlp", planned, base)
		require.Equal(t, first, step(t, f, "mlp", planned, base))
		require.NotEqual(t, first, step(t, f, "mlp", planned, nil))
	}
	img, err := png.Decode(strings.NewReader(step(t, figure.PNG, "mlp", planned, base)))
	require.NoError(t, err)
	require.Equal(t, 1417, img.Bounds().Dx())
	colours := map[any]bool{}
	for x := range img.Bounds().Dx() {
		colours[img.At(x, 500)] = true
	}
	require.Greater(t, len(colours), 4)
}

// TestHostileTitles: whatever a model is called, SVG is well-formed, and shows it in plain characters.
func TestHostileTitles(t *testing.T) {
	planned, _ := both(t, "mlp")
	for _, title := range []string{`"<script>alert(1)</script>&amp;'`, "\x00\x1b[31m\u202e", "\xff\xfe",
		"font-family:Liberation Sans;",
		strings.Repeat("long/", 2000), ""} {
		svg := step(t, figure.SVG, title, planned, nil)
		wellFormed(t, svg)
		require.NotContains(t, svg, "<script>")
		require.NotContains(t, svg, "\x1b")
		step(t, figure.PNG, title, planned, nil)
	}
}

// TestFormatOf: the name of a file says which format it has.
func TestFormatOf(t *testing.T) {
	for path, want := range map[string]figure.Format{
		"a.svg": figure.SVG, "b/c.PNG": figure.PNG, "x.y.Svg": figure.SVG,
	} {
		got, err := figure.FormatOf(path)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, path := range []string{"", "svg", "a.pdf", "-", "a.svg/b"} {
		_, err := figure.FormatOf(path)
		require.ErrorContains(t, err, ".svg or .png")
	}
}

// TestColors: a kind has one colour, in figures and on pages.
func TestColors(t *testing.T) {
	css, err := os.ReadFile("../webpage/assets/style.css")
	require.NoError(t, err)
	for k := range timeline.NumKinds {
		require.Regexp(t, `--`+k.String()+`: (light-dark\()?`+k.Color(), string(css))
	}
}

// TestLines: each line has its dots where its numbers are, and a name in the legend.
func TestLines(t *testing.T) {
	c := &figure.Chart{Title: "cost", X: "budget", Y: "more time, %", Bytes: true, Lines: []figure.Line{
		{Name: "a & b", Points: [][2]float64{{1 << 30, 8}, {2 << 30, 2}}},
		{Name: "one", Points: [][2]float64{{3 << 30, 0}}}}}
	var b strings.Builder
	require.NoError(t, figure.Lines(&b, figure.SVG, c))
	texts := wellFormed(t, b.String())
	for _, want := range []string{"cost", "budget, GiB", "more time, %", "a & b", "one"} {
		require.Contains(t, texts, want)
	}
	require.Contains(t, b.String(), "8 at 1; 2 at 2; one: 0 at 3;")
	var again strings.Builder
	require.NoError(t, figure.Lines(&again, figure.SVG, c))
	require.Equal(t, b.String(), again.String())
	require.NoError(t, figure.Lines(&again, figure.PNG, c))
}

// TestLegend: the legend takes the width that its names need, up to half of the picture.
func TestLegend(t *testing.T) {
	right := func(name string) float64 {
		var b strings.Builder
		c := &figure.Chart{Lines: []figure.Line{{Name: name, Points: [][2]float64{{0, 1}, {1, 1}}}}}
		require.NoError(t, figure.Lines(&b, figure.SVG, c))
		_, _, _, right := span(corners(t, b.String(), "fill:none;stroke:#000000;stroke-width:0.5"))
		return right
	}
	require.InDelta(t, right("a"), right("models/a.onnx"), 0)
	require.Greater(t, right("a"), right("models/a.onnx batch=64 seq=512")+50)
	require.InDelta(t, 340.16, right(strings.Repeat("models/", 100)), 0.01)
}

// TestNotFinite: an error names the line and the point that no picture can show.
func TestNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		c := &figure.Chart{Lines: []figure.Line{{Name: "none"}, {Name: "a", Points: [][2]float64{{0, 1}, {1, bad}}}}}
		for _, f := range []figure.Format{figure.SVG, figure.PNG} {
			require.ErrorContains(t, figure.Lines(io.Discard, f, c), `point 1 of "a" lies at (1, `)
		}
	}
}
