package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/graph/examples"
	"memopt/graph/op"
)

// OpsSchema is the schema of the JSON that `memopt ops -O json` prints.
const OpsSchema = "memopt.ops/v1"

type opJSON struct {
	Domain   string `json:"domain"`
	Name     string `json:"name"`
	Since    []int  `json:"since"`
	Class    string `json:"recompute_class"`
	View     bool   `json:"view"`
	InPlace  []int  `json:"in_place_inputs"`
	Random   bool   `json:"random"`
	ORTLevel *int   `json:"ort_probe_level"`
	ORTSince []int  `json:"ort_versions"`
	CPU      bool   `json:"cpu_kernel"`
	WhyNot   string `json:"cpu_kernel_missing_because,omitempty"`
	Gradient string `json:"gradient"`
}

// Ops prints rows of the operator table. missing says why an operator has no CPU kernel, "" where it has
// one; gradient says what autograd does with it.
func Ops(w io.Writer, format Format, rows []*op.Info, missing, gradient func(*op.Info) string) error {
	if format == JSONFormat {
		list := make([]opJSON, 0, len(rows))
		for _, r := range rows {
			level, versions := ortEntry(r)
			list = append(list, opJSON{r.Domain, r.Name, r.Since, r.Class.String(), r.View, nonNilInts(r.InPlace), r.Random, level, nonNilInts(versions), missing(r) == "", missing(r), gradient(r)})
		}
		return writeJSON(w, map[string]any{"schema": OpsSchema, "ops": list})
	}
	t := Table{Header: []string{"Operator", "Versions", "Recompute class", "Memory", "CPU kernel", "Gradient", "ONNX Runtime recomputes it"}}
	for _, r := range rows {
		t.Add(qualified(r), joinInts(r.Since), r.Class.String(), memoryText(r), kernelText(missing(r)), gradient(r), ortText(r))
	}
	return t.writeAs(w, format)
}

func kernelText(missing string) string {
	if missing == "" {
		return "yes"
	}
	return "no: " + missing
}

func nonNilInts(s []int) []int {
	if s == nil {
		return []int{}
	}
	return s
}

func qualified(r *op.Info) string {
	if r.Domain == "" {
		return r.Name
	}
	return r.Domain + "." + r.Name
}

func joinInts(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ", ")
}

func memoryText(r *op.Info) string {
	switch {
	case r.View:
		return "view of input 0"
	case len(r.InPlace) > 0:
		return "in place of input " + joinInts(r.InPlace)
	}
	return "own"
}

// ortEntry returns the probe level from which on ONNX Runtime recomputes an operator, and its versions.
func ortEntry(r *op.Info) (*int, []int) {
	if len(r.ORT) == 0 {
		return nil, nil
	}
	var versions []int
	for _, e := range r.ORT {
		versions = append(versions, e.Versions...)
	}
	slices.Sort(versions)
	return &r.ORT[0].Level, versions
}

func ortText(r *op.Info) string {
	level, versions := ortEntry(r)
	if level == nil {
		return "no"
	}
	return fmt.Sprintf("from probe level %d, versions %s", *level, joinInts(versions))
}

// ExamplesSchema is the schema of the JSON that `memopt examples -O json` prints.
const ExamplesSchema = "memopt.examples/v1"

type exampleJSON struct {
	Name    string           `json:"name"`
	Summary string           `json:"summary"`
	Dims    map[string]int64 `json:"dims"`
}

// Examples lists the built-in models.
func Examples(w io.Writer, format Format, list []examples.Example) error {
	if format == JSONFormat {
		out := make([]exampleJSON, 0, len(list))
		for _, e := range list {
			out = append(out, exampleJSON{e.Name, e.Summary, e.Dims})
		}
		return writeJSON(w, map[string]any{"schema": ExamplesSchema, "examples": out})
	}
	t := Table{Header: []string{"Model", "What it is", "Default bindings"}}
	for _, e := range list {
		t.Add("example:"+e.Name, e.Summary, dimsText(e.Dims))
	}
	return t.writeAs(w, format)
}
