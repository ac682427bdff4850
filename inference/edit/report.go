package edit

import (
	"fmt"

	"memopt/view/report"
)

// Sentences describe the change of a model's size. out is "-" for a stream.
func Sentences(out string, before, after Size) []string {
	if out == "-" {
		out = "The model"
	}
	return []string{fmt.Sprintf("%s has %s nodes, %s, and takes %s, %s.", out, report.Thousands(int64(after.Nodes)),
		was(int64(before.Nodes), int64(after.Nodes), report.Thousands), report.Bytes(after.Bytes),
		was(before.Bytes, after.Bytes, report.Bytes))}
}

// was describes a number before the change, for example "66 before (-37.9 %)" or "as before".
func was(before, after int64, format func(int64) string) string {
	if before == 0 || before == after {
		return "as before"
	}
	return fmt.Sprintf("%s before (%+.1f %%)", format(before), 100*float64(after-before)/float64(before))
}

// Facts begins a table of two columns with the change of a model's size.
func Facts(out string, before, after Size) *report.Table {
	t := &report.Table{Header: []string{"item", "value"}, Right: []bool{false, true}}
	t.Add("written to", out)
	t.Add("nodes before", fmt.Sprint(before.Nodes))
	t.Add("nodes after", fmt.Sprint(after.Nodes))
	t.Add("initializers before", fmt.Sprint(before.Initializers))
	t.Add("initializers after", fmt.Sprint(after.Initializers))
	t.Add("bytes before", fmt.Sprint(before.Bytes))
	t.Add("bytes after", fmt.Sprint(after.Bytes))
	return t
}
