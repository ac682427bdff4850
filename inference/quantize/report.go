package quantize

import (
	"fmt"
	"io"
	"strings"

	"memopt/inference/compare"
	"memopt/inference/edit"
	"memopt/view/report"
)

// Schema is the schema of the JSON of `memopt quantize`.
const Schema = "memopt.quantize/v1"

// View is a report's view of a quantization.
type View struct {
	Result   *Result
	Options  Options
	Model    string
	Out      string
	Compared *compare.Summary // nil if the outputs were not compared
	All      bool             // list all that was left alone in the table, too
}

// listed is how many nodes the table lists that were left alone.
const listed = 10

type viewJSON struct {
	Schema     string           `json:"schema"`
	Model      string           `json:"model"`
	Out        string           `json:"out"`
	Answer     string           `json:"answer"`
	Opset      int64            `json:"opset"`
	WeightType string           `json:"weight_type"`
	Reduced    bool             `json:"reduce_range"`
	Before     edit.Size        `json:"before"`
	After      edit.Size        `json:"after"`
	Weights    []weightJSON     `json:"weights"`
	Left       []leftJSON       `json:"left_alone"`
	Changes    []string         `json:"opset_changes"`
	Compared   *compare.Summary `json:"compared"`
}

type weightJSON struct {
	Name       string   `json:"name"`
	Dims       []int64  `json:"dims"`
	Nodes      []string `json:"nodes"`
	PerChannel bool     `json:"per_channel"`
	Bytes      int64    `json:"bytes"`
	Quantized  int64    `json:"quantized_bytes"`
	MaxError   float64  `json:"max_error"`
	MaxAbs     float64  `json:"max_abs"`
}

type leftJSON struct {
	Node   string `json:"node"`
	Op     string `json:"op"`
	Weight string `json:"weight"`
	Why    string `json:"why"`
}

// Report writes the report: the answer, the weights, and how the outputs compare.
func Report(w io.Writer, format report.Format, v View) error {
	if format == report.JSONFormat {
		return report.WriteJSON(w, v.json())
	}
	facts := edit.Facts(v.Out, v.Result.Before, v.Result.After)
	for _, x := range v.Result.Weights {
		facts.Add("bytes of "+x.Name+", quantized", fmt.Sprint(x.Quantized))
	}
	for _, l := range v.Result.Left {
		facts.Add("left alone: "+l.Node, l.Why)
	}
	v.Compared.AddFacts(facts)
	tables := []*report.Table{v.weights()}
	if v.Compared != nil {
		tables = append(tables, v.Compared.Table())
	}
	return compare.Write(w, format, v.sentences(), facts, append(tables, v.left())...)
}

// sentences are the answer.
func (v *View) sentences() []string {
	return append(edit.Sentences(v.Out, v.Result.Before, v.Result.After), v.sentence(), compare.Said(v.Compared))
}

// weights lists the weights.
func (v *View) weights() *report.Table {
	t := &report.Table{Header: []string{"weight", "dims", "scales", "before", "after", "largest error"},
		Right: []bool{false, false, false, true, true, true}}
	for _, x := range v.Result.Weights {
		scales := "one"
		if x.PerChannel {
			scales = "per channel"
		}
		t.Add(x.Name, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(x.Dims)), "×"), "[]"), scales,
			report.Bytes(x.Bytes), report.Bytes(x.Quantized), fmt.Sprintf("%.2g", x.MaxError))
	}
	return t
}

// left lists the weights that were left alone.
func (v *View) left() *report.Table {
	t := &report.Table{Title: "Left alone", Header: []string{"node", "operator", "why"}}
	for i, l := range v.Result.Left {
		if i == listed && !v.All {
			t.Title = fmt.Sprintf("Left alone (%d of %d; -v lists all)", listed, len(v.Result.Left))
			break
		}
		t.Add(l.Node, l.Op, l.Why)
	}
	return t
}

// sentence describes the change of the weights.
func (v *View) sentence() string {
	var before, after int64
	nodes := 0
	for _, x := range v.Result.Weights {
		before, after, nodes = before+x.Bytes, after+x.Quantized, nodes+len(x.Nodes)
	}
	return fmt.Sprintf("Weights quantized to %s: %d, which %d nodes read; they take %s of %s.", v.weightType(),
		len(v.Result.Weights), nodes, report.Bytes(after), report.Bytes(before))
}

func (v *View) weightType() string {
	if v.Options.Signed {
		return "int8"
	}
	return "uint8"
}

func (v *View) json() viewJSON {
	r := v.Result
	j := viewJSON{Schema: Schema, Model: v.Model, Out: v.Out,
		Answer: strings.Join(v.sentences(), " "), Opset: r.Model.OpsetVersion(""),
		WeightType: v.weightType(), Reduced: v.Options.ReduceRange, Before: r.Before, After: r.After,
		Weights: []weightJSON{}, Left: []leftJSON{}, Changes: append([]string{}, r.Changes...), Compared: v.Compared}
	for _, x := range r.Weights {
		j.Weights = append(j.Weights, weightJSON(x))
	}
	for _, l := range r.Left {
		j.Left = append(j.Left, leftJSON(l))
	}
	return j
}
