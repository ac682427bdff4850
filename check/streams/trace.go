package streams

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Race is a fault of a trace.
type Race struct {
	Kind    string // race, freed, began-early, no-such-event
	Event   int    // the place in the list of events
	Buffer  string // or the event that was waited for
	Message string
}

// event is one of a Chrome trace. Those with ph X are operations; their thread is their stream.
type event struct {
	Name, Ph string
	Ts, Dur  float64
	Pid, Tid json.RawMessage
	ID       json.RawMessage // of a flow, which goes from the event around its s to that around its f
	Args     json.RawMessage

	uses       uses
	at, stream int
}

// uses is the args of an event. Those of another form are left out.
type uses struct {
	ID                   string
	Reads, Writes, Frees names // buffers
	After                names // IDs of events that it waits for
}

// names is a text or a list of texts.
type names []string

// UnmarshalJSON takes both.
func (n *names) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*n = names{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(n))
}

// buffer is a buffer of a trace.
type buffer struct {
	Memory
	known, freed bool
	last         *event // that wrote or freed it
}

// trace is one call of Trace.
type trace struct {
	order   *Order
	buffers map[string]*buffer
	ended   map[string]*event // by ID
	moments map[*event]Moment // of the events that others wait for
	races   []Race
}

// Trace checks the events of a Chrome trace: no buffer is read while a write to it may be under way, or written or
// freed while another use of it may be; and no event begins before those have ended that it waits for. It returns how
// many operations name buffers, too. An error is about a file that is no trace.
func Trace(r io.Reader) (races []Race, operations int, err error) {
	all, flows, streams, err := readTrace(r)
	if err != nil {
		return nil, 0, err
	}
	t := &trace{New(streams), map[string]*buffer{}, map[string]*event{}, map[*event]Moment{}, nil}
	wanted := map[*event]bool{}
	for _, e := range all {
		if e.uses.ID != "" {
			t.ended[e.uses.ID] = e
		}
	}
	for _, e := range all {
		for _, id := range e.uses.After {
			if from := t.ended[id]; from == nil {
				t.fault("no-such-event", e, id, "waits for %q, which the trace does not have", id)
			} else {
				flows[e] = append(flows[e], from)
			}
		}
		for _, from := range flows[e] {
			wanted[from] = true
		}
	}
	for _, e := range all {
		for _, from := range flows[e] {
			if from.Ts+from.Dur > e.Ts*(1+1e-12) {
				t.fault("began-early", e, from.Name, "waits for %q, and began before that had ended", from.Name)
			}
			t.order.Join(e.stream, t.moments[from])
		}
		t.run(e)
		if a := &e.uses; len(a.Reads)+len(a.Writes)+len(a.Frees) > 0 {
			operations++
		}
		if wanted[e] {
			t.moments[e] = t.order.Now(e.stream)
		}
	}
	return t.races, operations, nil
}

func (t *trace) fault(kind string, e *event, of, format string, args ...any) {
	t.races = append(t.races, Race{kind, e.at, of, fmt.Sprintf("%q on stream %s ", e.Name, e.Tid) +
		fmt.Sprintf(format, args...)})
}

// run notes the accesses of an event.
func (t *trace) run(e *event) {
	t.order.Next(e.stream)
	for _, name := range e.uses.Reads {
		if b := t.buffer(name); b.freed {
			t.fault("freed", e, name, "reads %q behind %q, which frees it", name, b.last.Name)
		} else if !t.order.Read(e.stream, &b.Memory) && b.known {
			t.fault("race", e, name, "reads %q, and no wait orders it behind the write by %q", name, b.last.Name)
		}
	}
	for i, list := range []names{e.uses.Writes, e.uses.Frees} {
		for _, name := range list {
			b, does := t.buffer(name), []string{"writes", "frees"}[i]
			if b.known && !t.order.Written(e.stream, &b.Memory) {
				t.fault("race", e, name, "%s %q, and no wait orders it behind %q", does, name, b.last.Name)
			} else if !t.order.Unread(e.stream, &b.Memory) {
				t.fault("race", e, name, "%s %q, and no wait orders it behind a read of it", does, name)
			} else if b.freed && i == 1 {
				t.fault("freed", e, name, "frees %q behind %q, which frees it", name, b.last.Name)
			}
			*b = buffer{t.order.Fresh(e.stream), true, i == 1, e}
		}
	}
}

func (t *trace) buffer(name string) *buffer {
	if t.buffers[name] == nil {
		t.buffers[name] = &buffer{}
	}
	return t.buffers[name]
}

// readTrace returns the operations in the order of their times, by operation those that flows make it wait for, and
// the number of streams.
func readTrace(r io.Reader) (all []*event, flows map[*event][]*event, streams int, err error) {
	var raw json.RawMessage
	if err := json.NewDecoder(r).Decode(&raw); err != nil {
		return nil, nil, 0, fmt.Errorf("it is no JSON: %w", err)
	}
	var list []*event
	var file struct{ TraceEvents []*event }
	if json.Unmarshal(raw, &list) != nil {
		if err := json.Unmarshal(raw, &file); err != nil || file.TraceEvents == nil {
			return nil, nil, 0, errors.Join(errors.New("it is no trace of events, {\"traceEvents\": […]}"), err)
		}
		list = file.TraceEvents
	}
	numbers := map[string]int{}
	var ends []*event // of flows
	for at, e := range list {
		if e == nil {
			continue
		}
		e.at = at
		switch e.Ph {
		case "X":
			key := string(e.Pid) + "/" + string(e.Tid)
			if _, ok := numbers[key]; !ok {
				numbers[key] = len(numbers)
			}
			e.stream, all = numbers[key], append(all, e)
			if json.Unmarshal(e.Args, &e.uses) != nil {
				e.uses = uses{}
			}
		case "s", "f":
			ends = append(ends, e)
		}
	}
	byTime := func(a, b *event) int { return cmp.Or(cmp.Compare(a.Ts, b.Ts), cmp.Compare(a.at, b.at)) }
	slices.SortFunc(all, byTime)
	slices.SortStableFunc(ends, func(a, b *event) int { return cmp.Compare(b.Ph, a.Ph) }) // every s before every f
	flows, sources := map[*event][]*event{}, map[string]*event{}
	threads := make([][]*event, len(numbers))
	for _, e := range all {
		threads[e.stream] = append(threads[e.stream], e)
	}
	for _, e := range ends {
		stream, ok := numbers[string(e.Pid)+"/"+string(e.Tid)]
		if !ok {
			continue
		}
		// The newest event that has begun is around it.
		on := threads[stream]
		i, _ := slices.BinarySearchFunc(on, e.Ts, func(x *event, ts float64) int {
			if x.Ts <= ts {
				return -1
			}
			return 1
		})
		if e.Ph == "s" && i > 0 {
			sources[string(e.ID)] = on[i-1]
		} else if from := sources[string(e.ID)]; from != nil && e.Ph == "f" && i > 0 {
			flows[on[i-1]] = append(flows[on[i-1]], from)
		}
	}
	return all, flows, len(numbers), nil
}
