package report

import (
	"io"
	"time"
)

// TraceEvent is one node's execution.
type TraceEvent struct {
	Name, Op string
	Phase    string
	Start    time.Duration // since the first event
	Took     time.Duration
	Live     int64
	Step     int
	Origin   string // of a clone: the node that it is a clone of, by its label in the graph before it was rewritten
}

// TraceHeader says what was traced, so that a trace that does not fit is noticed when it is read again (configs.LoadTrace).
type TraceHeader struct {
	Schema          string           `json:"schema"` // configs.TraceSchema
	StructureSHA256 string           `json:"structure_sha256"`
	Dims            map[string]int64 `json:"dims"`
	Backend         string           `json:"backend"`
	Threads         int              `json:"threads"`
	Rewritten       bool             `json:"rewritten"` // whether a plan was applied to the model before it ran
}

type chromeEvent struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`
	Ts   float64        `json:"ts"`
	Dur  *float64       `json:"dur,omitempty"`
	Pid  int            `json:"pid"`
	Tid  int            `json:"tid"`
	Args map[string]any `json:"args,omitempty"`
}

// ChromeTrace writes events in the trace event format that Perfetto and chrome://tracing open: an
// event per node and a counter of live bytes. Times are microseconds; the header is in otherData.
func ChromeTrace(w io.Writer, header TraceHeader, events []TraceEvent) error {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	out := struct {
		Unit   string        `json:"displayTimeUnit"`
		Header TraceHeader   `json:"otherData"`
		Events []chromeEvent `json:"traceEvents"`
	}{"ms", header, []chromeEvent{{Name: "process_name", Ph: "M", Pid: 1, Tid: 1, Args: map[string]any{"name": "memopt run"}}}}
	for _, e := range events {
		took := us(e.Took)
		args := map[string]any{"op": e.Op, "step": e.Step, "live_bytes": e.Live}
		if e.Origin != "" {
			args["origin"] = e.Origin
		}
		out.Events = append(out.Events,
			chromeEvent{Name: e.Name, Cat: e.Phase, Ph: "X", Ts: us(e.Start), Dur: &took, Pid: 1, Tid: 1, Args: args},
			chromeEvent{Name: "live bytes", Ph: "C", Ts: us(e.Start), Pid: 1, Tid: 1, Args: map[string]any{"bytes": e.Live}})
	}
	return writeJSON(w, out)
}
