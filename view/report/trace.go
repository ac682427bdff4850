package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"memopt/view/timeline"
)

// TraceHeader identifies the traced program, so that a trace of another one is noticed when it is read
// (configs.LoadTrace).
type TraceHeader struct {
	Schema          string           `json:"schema"` // configs.TraceSchema
	StructureSHA256 string           `json:"structure_sha256"`
	Dims            map[string]int64 `json:"dims"`
	Backend         string           `json:"backend"`
	Threads         int              `json:"threads"`
	Rewritten       bool             `json:"rewritten"` // whether a plan was applied to the model before it ran
}

// TraceNode is the common part of all events of a node, in JSON.
type TraceNode struct {
	name []byte
	head []byte // up to the time stamp
	args []byte // from the operator up to the step
	flow uint32 // one past the number of its flow; 0 without a flow
	into bool   // whether the flow ends here
}

// Begins makes a flow of that number begin at the node: viewers draw an arrow from it to each node that
// ends the flow, in the same step.
func (n *TraceNode) Begins(flow int) { n.flow, n.into = uint32(flow)+1, false }

// Ends makes a flow end at the node.
func (n *TraceNode) Ends(flow int) { n.flow, n.into = uint32(flow)+1, true }

// NewTraceNode returns a node's part of its events. For a clone, origin is the label, in the graph
// before the rewrite, of the node that it repeats; otherwise it is "".
func NewTraceNode(name, op, phase, origin string) *TraceNode {
	n := &TraceNode{name: quoteJSON(name)}
	n.head = append(append([]byte(`{"name": `), n.name...), `, "cat": `...)
	n.head = append(append(n.head, quoteJSON(phase)...), `, "ph": "X", "ts": `...)
	n.args = append([]byte(`, "op": `), quoteJSON(op)...)
	if origin != "" {
		n.args = append(append(n.args, `, "origin": `...), quoteJSON(origin)...)
	}
	return n
}

// quoteJSON returns a text as JSON, with characters that would steer a terminal escaped.
func quoteJSON(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("report: a string does not marshal: " + err.Error())
	}
	return plainJSON(quoted)
}

// TraceWriter writes events in the trace event format that Perfetto and chrome://tracing open, as they
// happen: an event and a counter of live bytes for each execution of a node, one line each, on one
// track, the phases of a step on another, and the work of other threads for a node on one for each.
// Times are microseconds; the header is in otherData. The writer keeps no events, so a trace may be as
// long as its file can be.
type TraceWriter struct {
	w     *bufio.Writer
	line  []byte
	phase string        // the current one; "" before the first
	end   time.Duration // of the last event
	named int           // threads whose tracks have names: 1..named
	// tracks are those of copies that have names.
	tracks map[int]bool
	err    error // the first one
}

// NewTraceWriter begins a trace of a run.
func NewTraceWriter(w io.Writer, header TraceHeader) *TraceWriter {
	return newTraceWriter(w, "memopt run", header)
}

// newTraceWriter begins the trace of a process.
func newTraceWriter(w io.Writer, process string, header any) *TraceWriter {
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
{"name": "process_name", "ph": "M", "ts": 0, "pid": 1, "tid": 1, "args": {"name": "` + process + `"}},
{"name": "thread_name", "ph": "M", "ts": 0, "pid": 1, "tid": 1, "args": {"name": "nodes"}},
{"name": "thread_name", "ph": "M", "ts": 0, "pid": 1, "tid": 2, "args": {"name": "phases"}}`))
	return t
}

// Phase begins a phase of a step at a time: the events that follow belong to it. The same phase may
// begin again, in the next step.
func (t *TraceWriter) Phase(name string, start time.Duration) {
	t.endPhase()
	t.phase = name
	t.mark(`", "ph": "B", "ts": `, start)
}

// endPhase ends a phase with its last event.
func (t *TraceWriter) endPhase() {
	if t.phase != "" {
		t.mark(`", "ph": "E", "ts": `, t.end)
		t.phase = ""
	}
}

// mark writes an event of the phase, which has no characters that JSON escapes.
func (t *TraceWriter) mark(how string, at time.Duration) {
	b := append(t.line[:0], ",\n{\"name\": \""...)
	b = append(append(b, t.phase...), how...)
	b = appendMicroseconds(b, at)
	t.line = append(b, `, "pid": 1, "tid": 2, "args": {}}`...)
	t.write(t.line)
}

// firstThread is the track of thread 1; thread 0 runs the nodes.
const firstThread = 3

// Thread writes that a thread, 1 or higher, worked for a node for a time. It does not allocate. Its
// events are no executions: configs.LoadTrace ignores them.
func (t *TraceWriter) Thread(n *TraceNode, thread int, start, took time.Duration) {
	for t.named < thread {
		t.named++
		b := append(t.line[:0], ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 1, \"tid\": "...)
		b = strconv.AppendInt(b, int64(firstThread+t.named-1), 10)
		b = append(b, `, "args": {"name": "thread `...)
		b = strconv.AppendInt(b, int64(t.named), 10)
		t.line = append(b, `"}}`...)
		t.write(t.line)
	}
	for _, e := range []struct {
		how string
		at  time.Duration
	}{{`, "ph": "B", "ts": `, start}, {`, "ph": "E", "ts": `, start + took}} {
		b := append(append(t.line[:0], ",\n{\"name\": "...), n.name...)
		b = appendMicroseconds(append(b, e.how...), e.at)
		b = append(b, `, "pid": 1, "tid": `...)
		b = strconv.AppendInt(b, int64(firstThread+thread-1), 10)
		t.line = append(b, `, "args": {}}`...)
		t.write(t.line)
	}
}

// Kinds writes the planned live bytes from a time on, by kind, as counters.
func (t *TraceWriter) Kinds(start time.Duration, always, live *timeline.Bytes) {
	b := append(t.line[:0], ",\n{\"name\": \"planned bytes\", \"ph\": \"C\", \"ts\": "...)
	b = appendMicroseconds(b, start)
	b = append(b, `, "pid": 1, "tid": 1, "args": {`...)
	for k := range live {
		if k > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '"')
		b = append(b, timeline.Kind(k).String()...)
		b = append(b, `": `...)
		b = strconv.AppendInt(b, always[k]+live[k], 10)
	}
	t.line = append(b, "}}"...)
	t.write(t.line)
}

// Event writes one execution of a node: its start after the first one, its duration, the bytes that were
// live meanwhile, and the step that it was in. It does not allocate. Close reports errors.
func (t *TraceWriter) Event(n *TraceNode, start, took time.Duration, live int64, step int) {
	b := append(t.line[:0], ",\n"...)
	b = append(b, n.head...)
	b = appendMicroseconds(b, start)
	b = append(b, `, "dur": `...)
	b = appendMicroseconds(b, took)
	b = appendFlow(b, n, step)
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
	t.line, t.end = b, start+took
	t.write(b)
}

// Copy writes a copy between device and host, on a track of its own.
func (t *TraceWriter) Copy(n *TraceNode, track int, start, took time.Duration) {
	if !t.tracks[track] {
		if t.tracks == nil {
			t.tracks = map[int]bool{}
		}
		t.tracks[track] = true
		name := map[int]string{outTrack: "copies to the host", inTrack: "copies from the host"}[track]
		t.write(fmt.Appendf(nil, ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 1, \"tid\": %d, "+
			"\"args\": {\"name\": \"%s\"}}", track, name))
	}
	b := append(append(t.line[:0], ",\n"...), n.head...)
	b = append(appendMicroseconds(b, start), `, "dur": `...)
	b = appendMicroseconds(b, took)
	b = fmt.Appendf(b, `, "pid": 1, "tid": %d, "args": {"step": 0`, track)
	t.line = append(append(b, n.args...), "}}"...)
	t.write(t.line)
}

// appendFlow binds an event to the flow of its node, if it is in one: flows of different steps are
// different.
func appendFlow(b []byte, n *TraceNode, step int) []byte {
	if n.flow == 0 {
		return b
	}
	b = append(b, `, "bind_id": "0x`...)
	b = strconv.AppendUint(b, uint64(step)<<32|uint64(n.flow), 16)
	if n.into {
		return append(b, `", "flow_in": true`...)
	}
	return append(b, `", "flow_out": true`...)
}

func appendMicroseconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Nanoseconds())/1000, 'f', -1, 64)
}

func (t *TraceWriter) write(b []byte) {
	if t.err == nil {
		_, t.err = t.w.Write(b)
	}
}

// Close ends the trace but does not close its writer, and returns the first error of all calls.
func (t *TraceWriter) Close() error {
	t.endPhase()
	t.write([]byte("\n]}\n"))
	if t.err == nil {
		t.err = t.w.Flush()
	}
	return t.err
}
