package diff

import (
	"encoding/json"
	"math/big"
	"memopt/recompute"
	"strconv"
)

// Kind is the source of a subject.
type Kind string

// The kinds of subjects.
const (
	PlanKind   Kind = "model"     // a model, planned
	FileKind   Kind = "plan file" // the record of a plan, as JSON
	ReportKind Kind = "report"    // the JSON that a verb prints
	// OperatorsKind is a plan saved by memopt.torch.plan(select="operators").
	OperatorsKind Kind = "plan of operators"
)

// Subject is one side of a comparison.
type Subject struct {
	Name   string // for messages: a path
	Kind   Kind
	Schema string // "memopt.plan/v1"; of a planned model that of its report
	// Structure is the hash of the model's structure; "": unknown.
	Structure string

	fields     []field // by path, sorted; items are not among them
	regions    list    // chunked regions
	placements list
	moves      list // of values to the host and back
	clusters   list
	stashes    list
	live       list                // the memory at the peak, of a compiled program
	order      recompute.NodeOrder // of execution, as indices of nodes; nil if unknown
}

// field is a number, a text or a bool of a report.
type field struct {
	path  string // "peak.arena_bytes", "outputs[loss].max_abs_diff"
	value Value
}

// list is the items of one kind of a subject; an unknown list has no items.
type list struct {
	known bool
	items []item
}

// item is a region, a placement, a move, a cluster or a stashed activation.
type item struct {
	name, layer string
	facts       []Fact // the same ones, in the same order, for all items of a kind
}

// Fact is one statement about an item: "before" is "node 7".
type Fact struct {
	Name  string
	Unit  Unit
	Value Value
}

// Value is a number, a text, or unknown: the zero value.
type Value struct {
	Number *big.Rat
	Text   string // as it stands in the JSON; of a number, its digits
	Known  bool
}

// numberValue returns a number of JSON, or a text if a float64 cannot hold it.
func numberValue(n json.Number) Value {
	v := Value{Text: n.String(), Known: true}
	if i, err := n.Int64(); err == nil {
		v.Number = new(big.Rat).SetInt64(i)
	} else if x, err := strconv.ParseFloat(v.Text, 64); err == nil {
		v.Number = new(big.Rat).SetFloat64(x)
	}
	return v
}

func textValue(text string) Value { return Value{Text: text, Known: true} }

func intValue(n int64) Value { return numberValue(json.Number(strconv.FormatInt(n, 10))) }

func floatValue(x float64) Value {
	return numberValue(json.Number(strconv.FormatFloat(x, 'g', -1, 64)))
}

// same reports whether two values are equal: numbers as numbers, so that 1 is 1.0.
func (v Value) same(w Value) bool {
	if v.Known && w.Known && v.Number != nil && w.Number != nil {
		return v.Number.Cmp(w.Number) == 0
	}
	return v.Known == w.Known && v.Text == w.Text && (v.Number == nil) == (w.Number == nil)
}

// json is the value as JSON has it.
func (v Value) json() any {
	switch {
	case !v.Known:
		return nil
	case v.Number != nil:
		return json.Number(v.Text)
	}
	return v.Text
}
