package snapshot

import (
	"fmt"
	"io"
	"path"

	"memopt/hint"
	sim "memopt/sim/snapshot"
	"memopt/view/report"
)

// Schema is the schema of the JSON.
const Schema = "memopt.snapshot/v1"

// View says how much a report shows.
type View struct {
	Path string
	Top  int // rows; 0: all
}

// sentences describe the event.
func (r *Result) sentences() (list []string) {
	events, at := report.Thousands(int64(len(r.Snapshot.Events))), report.Thousands(int64(r.Event+1))
	switch {
	case r.Ran:
		list = append(list, fmt.Sprintf("Memory ran out at event %s of %s: a request for %s, when the device had %s "+
			"left.", at, events, report.Bytes(r.Wanted), report.Bytes(r.Free)))
	case len(r.Snapshot.Events) == 0:
		list = append(list, "The snapshot has no events (torch.cuda.memory._record_memory_history was not on): this "+
			"is the memory when it was taken.")
	case r.Event < 0:
		list = append(list, fmt.Sprintf("Memory did not run out. The most was in use before the events that the "+
			"recording kept (%s; max_entries of torch.cuda.memory._record_memory_history).", events))
	default:
		list = append(list, fmt.Sprintf("Memory did not run out. The most was in use at event %s of %s.", at, events))
	}
	list = append(list, fmt.Sprintf("PyTorch had %s of the device: %s in %s, and %s free, the largest piece of it %s.",
		report.Bytes(r.Reserved), report.Bytes(r.Held), blocks(r.Blocks), report.Bytes(max(r.Reserved-r.Held, 0)),
		report.Bytes(r.Largest)))
	if x := r.Replay; x != nil {
		list = append(list, fmt.Sprintf("Replayed by the allocator's rules, the events take %s of the device at most; "+
			"%s were recorded, and %s.", report.Bytes(x.Peak.Reserved), report.Bytes(x.RecordedPeak), apart(x.Off)))
	}
	if text := r.change(); text != "" {
		list = append(list, text)
	}
	return list
}

// apart says how far the bytes of the device by the rules are from those that were recorded.
func apart(off float64) string {
	if off == 0 {
		return "both are equal at every event"
	}
	return "at no event do both differ by more than " + report.Percent(off)
}

func blocks(n int) string {
	if n == 1 {
		return "1 block"
	}
	return report.Thousands(int64(n)) + " blocks"
}

// change says why memory ran out, and which change helps; "" where no cause is known.
func (r *Result) change() string {
	const option = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
	x := r.Expandable
	fragments := fmt.Sprintf("The cause is fragmentation: %s were free, in places that cannot serve the request.",
		report.Bytes(r.free()))
	switch {
	case r.Cause == Fragments && x == nil:
		return fragments + " Segments are expandable already: it takes fewer live bytes."
	case r.Cause == Fragments && x.Ran < 0:
		return fmt.Sprintf("%s With %s it is served, and the events up to it take %s at most.", fragments, option,
			report.Bytes(x.Peak.Reserved))
	case r.Cause == Fragments:
		return fmt.Sprintf("%s With %s memory runs out, too, at event %s: it takes fewer live bytes.", fragments,
			option, report.Thousands(int64(x.Ran+1)))
	case r.Cause == LiveBlocks:
		return fmt.Sprintf("The cause is live bytes: %s more than what was free were needed, so no option of the "+
			"allocator helps. A smaller batch does, or a plan with a budget (memopt.torch.plan, memopt.torch.compile) "+
			"that recomputes activations.", report.Bytes(r.Wanted-r.free()))
	case x == nil:
		return ""
	case x.Peak.Reserved < r.Replay.Peak.Reserved:
		return fmt.Sprintf("With %s the events take %s of the device at most, %s less.", option,
			report.Bytes(x.Peak.Reserved), report.Bytes(r.Replay.Peak.Reserved-x.Peak.Reserved))
	}
	return "Expandable segments would save nothing."
}

// resultJSON is the form of a result.
type resultJSON struct {
	Schema    string       `json:"schema"`
	Path      string       `json:"path"`
	Device    int          `json:"device"`
	Settings  string       `json:"allocator_conf"`
	Events    int          `json:"events"`
	Event     *int         `json:"event"`
	Ran       bool         `json:"ran_out"`
	Cause     *string      `json:"cause"`
	Wanted    *int64       `json:"wanted_bytes"`
	Free      *int64       `json:"device_free_bytes"`
	Reserved  int64        `json:"reserved_bytes"`
	Held      int64        `json:"allocated_bytes"`
	Asked     int64        `json:"asked_bytes"`
	Largest   int64        `json:"largest_free_bytes"`
	Holders   []holderJSON `json:"holders"`
	Kinds     []kindJSON   `json:"kinds"`
	Replay    *replayJSON  `json:"replay"`
	Expanding *expandJSON  `json:"expandable"`
	Answer    []string     `json:"answer"`
}

type holderJSON struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Func   string `json:"function"`
	Kind   string `json:"kind"`
	Bytes  int64  `json:"bytes"`
	Blocks int    `json:"blocks"`
}

type kindJSON struct {
	Kind   string `json:"kind"`
	Bytes  int64  `json:"bytes"`
	Blocks int    `json:"blocks"`
}

type replayJSON struct {
	Peak     int64   `json:"reserved_peak_bytes"`
	Recorded int64   `json:"recorded_peak_bytes"`
	Off      float64 `json:"largest_difference"`
}

type expandJSON struct {
	Peak int64 `json:"reserved_peak_bytes"`
	Runs *bool `json:"request_served"`
}

func (r *Result) json(v View) *resultJSON {
	s := r.Snapshot
	out := &resultJSON{Schema: Schema, Path: v.Path, Device: s.Device, Settings: s.Settings, Events: len(s.Events),
		Ran: r.Ran, Reserved: r.Reserved, Held: r.Held, Asked: r.Asked, Largest: r.Largest, Holders: []holderJSON{},
		Kinds: []kindJSON{}, Answer: r.sentences()}
	if r.Event >= 0 {
		out.Event = &r.Event
	}
	if r.Ran {
		cause := string(r.Cause)
		out.Cause, out.Wanted, out.Free = &cause, &r.Wanted, &r.Free
	}
	for _, h := range r.Holders {
		out.Holders = append(out.Holders, holderJSON{h.Frame.File, h.Frame.Line, h.Frame.Func, h.Kind, h.Bytes,
			h.Blocks})
	}
	for _, k := range r.Kinds {
		out.Kinds = append(out.Kinds, kindJSON{k.Kind, k.Bytes, k.Blocks})
	}
	if x := r.Replay; x != nil {
		out.Replay = &replayJSON{x.Peak.Reserved, x.RecordedPeak, x.Off}
	}
	if x := r.Expandable; x != nil {
		out.Expanding = &expandJSON{Peak: x.Peak.Reserved}
		if served := x.Ran < 0; r.Ran {
			out.Expanding.Runs = &served
		}
	}
	return out
}

// line names a line of the program.
func line(f sim.Frame) string {
	if f == (sim.Frame{}) {
		return "(no frames: before the recording, or recorded without)"
	}
	if f.File == "" {
		return f.Func
	}
	return fmt.Sprintf("%s:%d %s", path.Base(f.File), f.Line, f.Func)
}

// table lists who held the memory.
func (r *Result) table(v View) *report.Table {
	t := &report.Table{Title: "Held at that moment", Header: []string{"bytes", "blocks", "kind", "line"},
		Right: []bool{true, true}, Fit: []report.Fit{report.Whole, report.Whole, report.Wrap, report.Wrap}}
	rest, count := int64(0), 0
	for i, h := range r.Holders {
		if v.Top > 0 && i >= v.Top {
			rest += h.Bytes
			count += h.Blocks
			continue
		}
		t.Add(report.Bytes(h.Bytes), fmt.Sprint(h.Blocks), h.Kind, line(h.Frame))
	}
	if rest > 0 {
		t.Add(report.Bytes(rest), fmt.Sprint(count), "", fmt.Sprintf("%d more lines (%v: all)", len(r.Holders)-v.Top,
			hint.Top.With("0")))
	}
	t.Add(report.Bytes(r.Held), fmt.Sprint(r.Blocks), "", "together")
	return t
}

// Report writes a result.
func Report(w io.Writer, format report.Format, r *Result, v View) error {
	switch format {
	case report.JSONFormat:
		return report.WriteJSON(w, r.json(v))
	case report.CSVFormat:
		t := &report.Table{Header: []string{"bytes", "blocks", "kind", "file", "line", "function"}}
		for _, h := range r.Holders {
			t.Add(fmt.Sprint(h.Bytes), fmt.Sprint(h.Blocks), h.Kind, h.Frame.File, fmt.Sprint(h.Frame.Line),
				h.Frame.Func)
		}
		return t.WriteCSV(w)
	}
	if err := report.Sentences(w, format, r.sentences()...); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return r.table(v).WriteAs(w, format)
}
