package report

import (
	"fmt"

	"memopt/planner"
)

// fissionTable lists a plan's chunked regions: the value that names each, which never exists as a
// whole, with its full size and that of its largest part.
func fissionTable(p *planner.Plan, sized func(unit *string, sizes []int64) func(int64) string) *Table {
	t := &Table{Title: "Computed in parts"}
	if len(p.Fission) == 0 {
		return t
	}
	var whole, part []int64
	for i := range p.Fission {
		a, b := p.RegionBytes(i)
		whole, part = append(whole, a), append(part, b)
	}
	var unit string
	size := sized(&unit, append(whole, part...))
	t.Header = []string{"Parts", "Dim", "Whole" + unit, "A part" + unit, "Bits", "Region"}
	t.Right = []bool{true, false, true, true}
	t.Fit = []Fit{Whole, Whole, Whole, Whole, Whole, Wrap}
	for i, c := range p.Fission {
		bits := "kept"
		if !c.Exact {
			bits = "not kept"
		}
		t.Add(fmt.Sprint(c.Parts), c.Dim, size(whole[i]), size(part[i]), bits, c.Region)
	}
	return t
}

// sizesInUnit prints sizes in one unit, which the heads of columns name.
func sizesInUnit(unit *string, sizes []int64) func(int64) string {
	name, size := SizeUnit(sizes...)
	*unit = ", " + name
	return size
}

// sizesInBytes prints sizes in bytes.
func sizesInBytes(unit *string, _ []int64) func(int64) string {
	*unit = ", bytes"
	return func(n int64) string { return fmt.Sprint(n) }
}
