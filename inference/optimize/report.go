package optimize

import (
	"fmt"
	"io"
	"strings"

	"memopt/inference/compare"
	"memopt/inference/edit"
	"memopt/view/report"
)

// Schema is the schema of the JSON of `memopt optimize`.
const Schema = "memopt.optimize/v1"

// View is a report's view of an optimization.
type View struct {
	Result   *Result
	Model    string
	Out      string
	Compared *compare.Summary // nil if the outputs were not compared
	All      bool             // list all that was left alone in the table, too
}

// listed is how many places the table lists that were left alone.
const listed = 10

type viewJSON struct {
	Schema   string           `json:"schema"`
	Model    string           `json:"model"`
	Out      string           `json:"out"`
	Answer   string           `json:"answer"`
	Opset    int64            `json:"opset"`
	Before   edit.Size        `json:"before"`
	After    edit.Size        `json:"after"`
	Done     []doneJSON       `json:"done"`
	Left     []leftJSON       `json:"left_alone"`
	Changes  []string         `json:"opset_changes"`
	Training int              `json:"training_nodes"`
	Compared *compare.Summary `json:"compared"`
}

type doneJSON struct {
	Pass  string `json:"pass"`
	What  string `json:"what"`
	Exact bool   `json:"exact"`
	Count int    `json:"count"`
}

type leftJSON struct {
	Pass string `json:"pass"`
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Report writes the report: the answer, the edits, and the comparison of the outputs.
func Report(w io.Writer, format report.Format, v View) error {
	if format == report.JSONFormat {
		return report.WriteJSON(w, v.json())
	}
	done := &report.Table{Header: []string{"pass", "kind", "places", "bits"},
		Right: []bool{false, false, true, false}}
	for _, d := range v.Result.Done {
		bits := "may change"
		if d.Exact {
			bits = "kept"
		}
		done.Add(d.Pass, d.What, report.Thousands(int64(d.Count)), bits)
	}
	facts := edit.Facts(v.Out, v.Result.Before, v.Result.After)
	for _, d := range v.Result.Done {
		facts.Add(d.Pass+": "+d.What, fmt.Sprint(d.Count))
	}
	v.Compared.AddFacts(facts)
	tables := []*report.Table{done}
	if v.Compared != nil {
		tables = append(tables, v.Compared.Table())
	}
	if len(v.Result.Left) > 0 {
		left := &report.Table{Title: "Left alone", Header: []string{"pass", "node", "why"}}
		for i, l := range v.Result.Left {
			if i == listed && !v.All {
				left.Title = fmt.Sprintf("Left alone (%d of %d; -v lists all)", listed, len(v.Result.Left))
				break
			}
			left.Add(l.Pass, l.Node, l.Why)
		}
		tables = append(tables, left)
	}
	return compare.Write(w, format, v.sentences(), facts, tables...)
}

// sentences are the answer.
func (v *View) sentences() []string {
	return append(edit.Sentences(v.Out, v.Result.Before, v.Result.After), compare.Said(v.Compared))
}

func (v *View) json() viewJSON {
	r := v.Result
	j := viewJSON{Schema: Schema, Model: v.Model, Out: v.Out,
		Answer: strings.Join(v.sentences(), " "), Opset: r.Model.OpsetVersion(""), Before: r.Before,
		After: r.After, Done: []doneJSON{}, Left: []leftJSON{}, Changes: append([]string{}, r.Changes...),
		Training: r.Trains, Compared: v.Compared}
	for _, d := range r.Done {
		j.Done = append(j.Done, doneJSON(d))
	}
	for _, l := range r.Left {
		j.Left = append(j.Left, leftJSON(l))
	}
	return j
}
