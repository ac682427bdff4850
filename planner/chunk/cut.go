package chunk

import (
	"fmt"
	"strconv"
	"strings"
)

// Mode is the set of permitted cuts.
type Mode string

const (
	// Exact: every output of the graph keeps its bits on memopt's CPU.
	Exact Mode = "exact"
	// Fast: sums over parts may differ from those of the whole by rounding.
	Fast Mode = "fast"
	// Off disables chunking.
	Off Mode = "off"
)

// Cut is a chunked region, as plan files have it: for example value "logits", dim "0", 4 parts.
type Cut struct {
	// Region names it: a value inside, which is never there as a whole.
	Region string `json:"region"`
	// Dim is the cut dims of that value: "1", or "0-1" for the first two counted as one.
	Dim string `json:"dim"`
	// Parts is how many parts there are. The last may be smaller.
	Parts int `json:"parts"`
	// Exact is set if every output keeps its bits on memopt's CPU. Without it, parts begin anywhere.
	Exact bool `json:"exact"`
	// Nodes are the labels of the region's nodes (recompute.Labels), in file order.
	Nodes []string `json:"nodes"`
}

// span is a range of dims that are counted as one: first to last.
type span struct{ first, last int }

func (s span) String() string {
	if s.first == s.last {
		return strconv.Itoa(s.last)
	}
	return fmt.Sprintf("%d-%d", s.first, s.last)
}

// parseSpan reads a Cut's dims.
func parseSpan(text string) (s span, err error) {
	from, to, ranged := strings.Cut(text, "-")
	if s.first, err = strconv.Atoi(from); err == nil && ranged {
		s.last, err = strconv.Atoi(to)
	} else {
		s.last = s.first
	}
	if err != nil || s.first < 0 || s.last < s.first || s.first > 0 && s.last > s.first {
		return s, fmt.Errorf("dim %q: wanted a number such as 2, or a range from the first dim such as 0-1", text)
	}
	return s, nil
}
