package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/hint"
)

// OpsSchema is the schema of the JSON that `memopt ops -O json` prints.
const OpsSchema = "memopt.ops/v1"

type opJSON struct {
	Domain   string `json:"domain"`
	Name     string `json:"name"`
	Dialect  string `json:"dialect,omitempty"`
	Since    []int  `json:"since"`
	Class    string `json:"recompute_class"`
	View     bool   `json:"view"`
	InPlace  []int  `json:"in_place_inputs"`
	Random   bool   `json:"random"`
	ORTLevel *int   `json:"ort_probe_level"`
	ORTSince []int  `json:"ort_versions"`
	CPU      bool   `json:"cpu_kernel"`
	WhyNot   string `json:"cpu_kernel_missing_because,omitempty"`
	CUDA     bool   `json:"cuda_kernel"`
	Host     string `json:"cuda_host_because,omitempty"`
	Gradient string `json:"gradient"`
}

// OpFacts are the questions of Ops about an operator. A reason is "" if none is needed.
type OpFacts struct {
	CPU      func(*op.Info) string // why there is no CPU kernel
	CUDA     func(*op.Info) string // why the host runs it on the CUDA device
	Gradient func(*op.Info) string // its treatment by autograd
	Words    bool                  // below the table, say in words where the operator runs
}

// Ops prints rows of the operator table.
func Ops(w io.Writer, format Format, rows []*op.Info, f OpFacts) error {
	if format == JSONFormat {
		list := make([]opJSON, 0, len(rows))
		for _, r := range rows {
			level, versions := ortEntry(r)
			list = append(list, opJSON{
				r.Domain, r.Name, r.Dialect, r.Since, r.Class.String(), r.View, nonNilInts(r.InPlace),
				r.Random, level, nonNilInts(versions),
				f.CPU(r) == "", f.CPU(r), f.CUDA(r) == "", f.CUDA(r), f.Gradient(r),
			})
		}
		return WriteJSON(w, map[string]any{"schema": OpsSchema, "ops": list})
	}
	if format == TableFormat && columnsOf(w) > 0 {
		return f.short(w, rows)
	}
	t := Table{
		Header: []string{"Operator", "Versions", "Recompute class", "Memory", "CPU kernel", "CUDA kernel", "Gradient",
			"ONNX Runtime recomputes it"},
	}
	for _, r := range rows {
		cell, _ := f.cuda(r)
		t.Add(qualified(r), joinInts(r.Since), r.Class.String(), memoryText(r), kernelText(f.CPU(r)), cell,
			f.Gradient(r), ortText(r))
	}
	if err := t.WriteAs(w, format); err != nil || !f.Words || format == CSVFormat {
		return err
	}
	return f.sentences(w, rows)
}

// short writes a table that fits a screen: the facts, without the reasons, which are in sentences
// below it if there are few operators.
func (f *OpFacts) short(w io.Writer, rows []*op.Info) error {
	t := Table{
		Header: []string{"Operator", "Class", "Memory", "CPU", "CUDA", "Gradient", "Probe"},
		Fit:    []Fit{Wrap, Whole, Wrap},
	}
	word := func(text string) string {
		text, _, _ = strings.Cut(text, ":")
		return text
	}
	for _, r := range rows {
		probe := "no"
		if level, _ := ortEntry(r); level != nil {
			probe = fmt.Sprint(*level)
		}
		cell, _ := f.cuda(r)
		t.Add(qualified(r), r.Class.String(), memoryText(r), word(kernelText(f.CPU(r))), word(cell),
			word(f.Gradient(r)), probe)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	if f.Words {
		return f.sentences(w, rows)
	}
	return Paragraph(w, fmt.Sprintf("Class: the cost of recomputing it. Probe: the lowest level of %v with which ONNX "+
		"Runtime recomputes it. Versions and reasons: memopt ops NAME, or -w.", hint.Probe))
}

// sentences says in words where operators run, and the reason for each gap.
func (f *OpFacts) sentences(w io.Writer, rows []*op.Info) error {
	for _, r := range rows {
		_, text := f.cuda(r)
		switch kind, why, ok := strings.Cut(f.Gradient(r), ": "); {
		case !ok:
		case kind == "none" || kind == "no rule":
			text += "; it has no gradient: " + why
		default: // about single inputs
			text += "; " + why
		}
		if level, _ := ortEntry(r); level != nil {
			text += "; ONNX Runtime recomputes it " + ortText(r)
		}
		text += "; " + plural(len(r.Since), "its version is ", "its versions are ") + joinInts(r.Since)
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := Paragraph(w, qualified(r)+": "+text+"."); err != nil {
			return err
		}
	}
	return nil
}

// cuda describes where an operator's nodes run on the CUDA backend, in a cell and in a sentence.
func (f *OpFacts) cuda(r *op.Info) (cell, sentence string) {
	why := f.CUDA(r)
	if why == "" {
		return "yes", "with -e cuda the device runs it; the host runs nodes with element types or attributes " +
			"without a kernel of the device"
	}
	if f.CPU(r) == "" {
		return "host: " + why, "with -e cuda the host runs it, and its operands are copied to the " +
			"host: " + why
	}
	return kernelText(why), "it can run neither with -e cuda nor on the CPU: " + why
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
	name := r.Name
	if r.Domain != "" {
		name = r.Domain + "." + r.Name
	}
	if r.Dialect != "" {
		name += " (" + r.Dialect + ")"
	}
	return name
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
	case r.Cuts != nil:
		return "parts of input 0"
	case r.Joins != nil:
		return "joined inputs"
	case len(r.InPlace) > 0:
		return "in place of input " + joinInts(r.InPlace)
	}
	return "own"
}

// ortEntry returns the lowest probe level that makes ONNX Runtime recompute an operator, and its
// versions.
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
		return WriteJSON(w, map[string]any{"schema": ExamplesSchema, "examples": out})
	}
	t := Table{Header: []string{"Model", "Contents", "Default bindings"}, Fit: []Fit{Whole, Wrap, Wrap}}
	for _, e := range list {
		t.Add("example:"+e.Name, e.Summary, dimsText(e.Dims))
	}
	return t.WriteAs(w, format)
}
