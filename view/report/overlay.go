package report

import (
	"bufio"
	"io"
	"strconv"

	"memopt/view/timeline"
)

// Overlay is a measure that viewers of graphs lay over them: a number for each node.
type Overlay struct {
	Name string // of its file, without an ending
	Doc  string // one line for people
	// of returns the numbers of a step's nodes.
	of func(t *timeline.Timeline) []float64
	// classes are the colours of the numbers 0, 1 and so on if these are names; nil means that they
	// are amounts, coloured by a gradient.
	classes []string
}

// Overlays are the measures, in the order of reports.
var Overlays = []Overlay{
	{Name: "bytes", Doc: "bytes that the node makes", of: func(t *timeline.Timeline) []float64 {
		return floats(t.Made())
	}},
	{Name: "peak-bytes", Doc: "of these, the bytes that are live at the peak",
		of: func(t *timeline.Timeline) []float64 {
			return floats(t.Held())
		}},
	{Name: "live-bytes", Doc: "all bytes that are live while the node runs", of: liveBytes},
	{Name: "decision",
		Doc: "the plan's decision: 0 plain, 1 stashed, 2 recomputed later, 3 the clone of such a node",
		of:  decisions, classes: []string{"#f2f2f2", "#e69f00", "#56b4e9", "#009e73"}},
	{Name: "milliseconds", Doc: "the time of one run of the node", of: milliseconds},
}

// The ends of the gradient of amounts, and the colour of texts on them.
const (
	littleColor, littleText = "#ffffff", "#000000"
	muchColor, muchText     = "#0072b2", "#ffffff"
)

func floats(list []int64) []float64 {
	out := make([]float64, len(list))
	for i, n := range list {
		out[i] = float64(n)
	}
	return out
}

func liveBytes(t *timeline.Timeline) []float64 {
	out, always := make([]float64, len(t.Steps)), t.Persistent.Sum()
	for i := range t.Steps {
		out[i] = float64(always + t.Steps[i].Live.Sum())
	}
	return out
}

func decisions(t *timeline.Timeline) []float64 {
	out := make([]float64, len(t.Steps))
	for i, d := range t.Decisions() {
		out[i] = float64(d)
	}
	return out
}

func milliseconds(t *timeline.Timeline) []float64 {
	out := make([]float64, len(t.Steps))
	for i := range t.Steps {
		out[i] = t.Steps[i].Seconds * 1e3
	}
	return out
}

// WriteOverlay writes a measure of a step as node data of Model Explorer (node_data_builder.py of
// google-ai-edge/model-explorer): by the graph's name, a number for each node of the rewritten graph.
// Among several nodes of one name the first counts.
func WriteOverlay(w io.Writer, t *timeline.Timeline, o *Overlay) error {
	b := bufio.NewWriterSize(w, 64<<10)
	b.WriteString("{")
	b.Write(quoteJSON(t.Graph.Name))
	b.WriteString(`: {"results": {`)
	seen := make(map[string]bool, len(t.Steps))
	values := o.of(t)
	first := true
	for i := range t.Steps {
		name := t.Steps[i].Name
		if seen[name] {
			continue
		}
		if seen[name] = true; !first {
			b.WriteString(",")
		}
		first = false
		b.WriteString("\n")
		b.Write(quoteJSON(name))
		b.WriteString(`: {"value": `)
		b.Write(strconv.AppendFloat(nil, values[i], 'f', -1, 64))
		if o.classes != nil {
			b.WriteString(`, "bgColor": "` + o.classes[int(values[i])] + `"`)
		}
		b.WriteString("}")
	}
	b.WriteString("\n}")
	if o.classes == nil {
		b.WriteString(`, "gradient": [{"stop": 0, "bgColor": "` + littleColor + `", "textColor": "` + littleText +
			`"}, {"stop": 1, "bgColor": "` + muchColor + `", "textColor": "` + muchText + `"}]`)
	}
	b.WriteString("}}\n")
	return b.Flush()
}
