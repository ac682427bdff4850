package report

import (
	"fmt"
	"io"
	"time"

	"memopt/planner/pack"
)

// PackSchema is the schema of the JSON that `memopt pack -O json` prints.
const PackSchema = "memopt.pack/v1"

// PackView is a packing with the facts of its report.
type PackView struct {
	*pack.Result
	Buffers  int
	Capacity int64 // 0 without a limit
	Took     time.Duration
}

type packJSON struct {
	Schema     string  `json:"schema"`
	Buffers    int     `json:"buffers"`
	Arena      int64   `json:"arena_bytes"`
	LowerBound int64   `json:"lower_bound_bytes"`
	Capacity   *int64  `json:"capacity_bytes"`
	Fits       bool    `json:"fits"`
	Optimal    bool    `json:"optimal"`
	Nodes      int64   `json:"nodes"`
	Method     string  `json:"method"`
	Took       float64 `json:"time_ms"`
}

// Pack reports a packing.
func Pack(w io.Writer, format Format, v *PackView) error {
	fits := v.Capacity == 0 || v.Height <= v.Capacity
	if format == JSONFormat {
		j := packJSON{PackSchema, v.Buffers, v.Height, v.LowerBound, nil, fits, v.Optimal, v.Nodes,
			v.Method, ms(v.Took)}
		if v.Capacity > 0 {
			j.Capacity = &v.Capacity
		}
		return WriteJSON(w, j)
	}
	t := Table{Header: []string{"item", "value", ""}, Right: []bool{false, true, false},
		Fit: []Fit{Wrap, Whole, Wrap}}
	t.Add("buffers", fmt.Sprint(v.Buffers), "")
	note := "as small as possible: equal to the lower bound"
	switch {
	case v.Height > v.LowerBound && v.LowerBound > 0:
		note = fmt.Sprintf("%.2f %% above the lower bound", 100*(float64(v.Height)/float64(v.LowerBound)-1))
	case v.Height > v.LowerBound:
		note = ""
	}
	t.Add("arena", Bytes(v.Height), note)
	t.Add("lower bound", Bytes(v.LowerBound), "the most bytes that are live at once")
	if v.Capacity > 0 {
		answer := "fits"
		if !fits {
			answer = "DOES NOT FIT"
		}
		t.Add("capacity", Bytes(v.Capacity), answer)
	}
	t.Add("found by", v.Method, fmt.Sprintf("%d nodes, %s", v.Nodes, duration(v.Took)))
	return t.WriteAs(w, format)
}
