package report

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// TraceHeader says what was traced, so that a trace of something else is noticed when it is read
// (configs.LoadTrace).
type TraceHeader struct {
	Schema          string           `json:"schema"` // configs.TraceSchema
	StructureSHA256 string           `json:"structure_sha256"`
	Dims            map[string]int64 `json:"dims"`
	Backend         string           `json:"backend"`
	Threads         int              `json:"threads"`
	Rewritten       bool             `json:"rewritten"` // whether a plan was applied to the model before it ran
}

// TraceNode is what all events of a node have in common, in JSON.
type TraceNode struct {
	head []byte // up to the time stamp
	args []byte // from the operator up to the step
}

// NewTraceNode returns a node's part of its events. For a clone, origin is the label, in the graph
// before the rewrite, of the node that it repeats; otherwise it is "".
func NewTraceNode(name, op, phase, origin string) *TraceNode {
	n := &TraceNode{}
	n.head = append(append([]byte(`{"name": `), quoteJSON(name)...), `, "cat": `...)
	n.head = append(append(n.head, quoteJSON(phase)...), `, "ph": "X", "ts": `...)
	n.args = append([]byte(`, "op": `), quoteJSON(op)...)
	if origin != "" {
		n.args = append(append(n.args, `, "origin": `...), quoteJSON(origin)...)
	}
	return n
}

// quoteJSON returns a text as JSON, with what would steer a terminal escaped.
func quoteJSON(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("report: a string does not marshal: " + err.Error())
	}
	return plainJSON(quoted)
}

// TraceWriter writes events in the trace event format that Perfetto and chrome://tracing open, as
// they happen: an event and a counter of live bytes for each execution of a node, one line each.
// Times are microseconds; the header is in otherData. The writer keeps no events, so a trace may be
// as long as its file can be.
type TraceWriter struct {
	w    *bufio.Writer
	line []byte
	err  error // the first one
}

// NewTraceWriter begins a trace.
func NewTraceWriter(w io.Writer, header TraceHeader) *TraceWriter {
	t := &TraceWriter{w: bufio.NewWriterSize(w, 256<<10)}
	text, err := json.MarshalIndent(header, " ", " ")
	if err != nil {
		t.err = err
		return t
	}
	t.write([]byte(`{
 "displayTimeUnit": "ms",
 "otherData": `))
	t.write(plainJSON(text))
	t.write([]byte(`,
 "traceEvents": [
{"name": "process_name", "ph": "M", "ts": 0, "pid": 1, "tid": 1, "args": {"name": "memopt run"}}`))
	return t
}

// Event writes one execution of a node: when it started after the first one, how long it took, the
// bytes that were live meanwhile, and the step that it was in. It allocates nothing. Close reports
// errors.
func (t *TraceWriter) Event(n *TraceNode, start, took time.Duration, live int64, step int) {
	b := append(t.line[:0], ",\n"...)
	b = append(b, n.head...)
	b = appendMicroseconds(b, start)
	b = append(b, `, "dur": `...)
	b = appendMicroseconds(b, took)
	b = append(b, `, "pid": 1, "tid": 1, "args": {"live_bytes": `...)
	b = strconv.AppendInt(b, live, 10)
	b = append(b, n.args...)
	b = append(b, `, "step": `...)
	b = strconv.AppendInt(b, int64(step), 10)
	b = append(b, "}},\n"...)
	b = append(b, `{"name": "live bytes", "ph": "C", "ts": `...)
	b = appendMicroseconds(b, start)
	b = append(b, `, "pid": 1, "tid": 1, "args": {"bytes": `...)
	b = strconv.AppendInt(b, live, 10)
	b = append(b, "}}"...)
	t.line = b
	t.write(b)
}

func appendMicroseconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Nanoseconds())/1000, 'f', -1, 64)
}

func (t *TraceWriter) write(b []byte) {
	if t.err == nil {
		_, t.err = t.w.Write(b)
	}
}

// Close ends the trace but does not close what it is written to, and returns the first error of all
// calls.
func (t *TraceWriter) Close() error {
	t.write([]byte("\n]}\n"))
	if t.err == nil {
		t.err = t.w.Flush()
	}
	return t.err
}
