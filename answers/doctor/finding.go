package doctor

import "slices"

// Grade is the severity of a finding.
type Grade string

// The grades, the worst first.
const (
	Slows  Grade = "slows"  // it costs time
	Memory Grade = "memory" // it costs memory
	Limits Grade = "limits" // it bounds the memory or the cores that can be used
	Hint   Grade = "hint"   // worth a try, or worth to know
	Fine   Grade = "fine"   // it was examined, and needs no action
)

var grades = []Grade{Slows, Memory, Limits, Hint, Fine}

// Finding is one thing that was looked at.
type Finding struct {
	Grade  Grade  `json:"grade"`
	What   string `json:"what"`   // a variable, a file, a library
	Value  string `json:"value"`  // on this machine
	Effect string `json:"effect"` // on memory or speed
	Fix    string `json:"fix"`    // the remedy; "" if none is needed
	Source string `json:"source"` // where the value, and where the effect, can be read
	// Try has settings for Try that show the effect; "NAME=" is the variable left out.
	Try []string `json:"try"`
}

// checks look at a machine, one subject each.
var checks = []func(*Machine) []Finding{
	cores, instructions, threadCounts, goRuntime, otherWork, // speed
	memoryLimits, overcommit, hugePages, allocator, preloaded, // memory
	libraries, ortSettings, ortModule, cudaSettings,
}

// Examine looks at everything. Findings of one grade are in the order of the checks, the worst grade
// first.
func (m *Machine) Examine() []Finding {
	var list []Finding
	for _, check := range checks {
		list = append(list, check(m)...)
	}
	slices.SortStableFunc(list, func(x, y Finding) int {
		return slices.Index(grades, x.Grade) - slices.Index(grades, y.Grade)
	})
	for i := range list {
		if list[i].Try == nil {
			list[i].Try = []string{}
		}
	}
	return list
}
