package webpage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"memopt/configs"
	"memopt/hint"
	"memopt/internal/inputfile"
	"memopt/view/report"
)

// maxRun is the size of the largest file of measurements: a profile of some hundred steps.
const maxRun = 1 << 28

// Run is the measurements of a file.
type Run struct {
	file    string
	schema  string
	report  json.RawMessage   // of run, verify and train
	lines   []json.RawMessage // of a job's metrics
	profile *profileJSON
}

type runJSON struct {
	File    string            `json:"file"`
	Schema  string            `json:"schema"`
	Report  json.RawMessage   `json:"report,omitempty"`
	Lines   []json.RawMessage `json:"lines,omitempty"`
	Profile *profileJSON      `json:"profile,omitempty"`
}

// profileJSON has the times of nodes, in the order of their first events.
type profileJSON struct {
	Backend string            `json:"backend"`
	Steps   int               `json:"steps"`
	Nodes   []profileNodeJSON `json:"nodes"`
}

type profileNodeJSON struct {
	Name   string `json:"name"`
	Op     string `json:"op"`
	Median int64  `json:"median_ns"` // over the steps, without the first if there are others
	Live   int64  `json:"live_bytes"`
	times  []nodeTime
}

type nodeTime struct {
	step int
	took float64 // nanoseconds
}

func newRunsJSON(runs []*Run) []runJSON {
	out := []runJSON{}
	for _, r := range runs {
		out = append(out, runJSON{r.file, r.schema, r.report, r.lines, r.profile})
	}
	return out
}

// The schemas of the reports that a page shows.
var reports = []string{report.RunSchema, report.VerifySchema, report.TrainSchema}

// MetricsSchema names a job's metrics.jsonl, whose lines have no schema of their own.
const MetricsSchema = "memopt.metrics/v1"

// ReadRun reads measurements: the JSON printed by verify, run or train, the metrics.jsonl of a
// training job, or the trace of a run. The contents tell them apart. The error names the
// file and its fault.
func ReadRun(path string) (*Run, error) {
	data, err := inputfile.Read(path, maxRun)
	if err != nil {
		return nil, err
	}
	r := &Run{file: filepath.Base(path)}
	if err := r.parse(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// wanted ends errors about files of an unknown kind.
const wanted = "wanted the JSON of verify, run or train, a job's metrics.jsonl, or a trace of a run"

// head is the fields that tell the kinds of files apart.
type head struct {
	Schema string          `json:"schema"`
	Events json.RawMessage `json:"traceEvents"`
	Step   *int64          `json:"step"`
	About  struct {
		Schema  string `json:"schema"`
		Backend string `json:"backend"`
	} `json:"otherData"`
}

func (r *Run) parse(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	var h head
	if err := dec.Decode(&h); err != nil {
		return fmt.Errorf("is not JSON: %w; %s", err, wanted)
	}
	switch {
	case slices.Contains(reports, h.Schema):
		if _, err := dec.Token(); err != io.EOF {
			return fmt.Errorf("has something behind the JSON object; %s", wanted)
		}
		var short bytes.Buffer
		if err := json.Compact(&short, data); err != nil {
			return err
		}
		r.schema, r.report = h.Schema, short.Bytes()
		return nil
	case h.Events != nil:
		r.schema = configs.TraceSchema
		return r.readProfile(&h)
	case h.Schema == "" && h.Step != nil:
		r.schema = MetricsSchema
		return r.readMetrics(data)
	case h.Schema != "":
		return fmt.Errorf("has schema %.80q; %s", h.Schema, wanted)
	}
	return errors.New("is a JSON object without a schema; " + wanted)
}

// readMetrics keeps the lines of a job's metrics, each an object with a step.
func (r *Run) readMetrics(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	for i := 1; ; i++ {
		var line json.RawMessage
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var h head
		if err == nil {
			err = json.Unmarshal(line, &h)
		}
		if err != nil || h.Step == nil {
			return fmt.Errorf("line %d is no object with a step; wanted the metrics.jsonl of a training job", i)
		}
		var short bytes.Buffer
		if err := json.Compact(&short, line); err != nil {
			return err
		}
		r.lines = append(r.lines, short.Bytes())
	}
}

// event has the fields of a trace's event that are shown.
type event struct {
	Name string  `json:"name"`
	Ph   string  `json:"ph"`
	Dur  float64 `json:"dur"` // microseconds
	Args struct {
		Op   string `json:"op"`
		Step int    `json:"step"`
		Live int64  `json:"live_bytes"`
	} `json:"args"`
}

func (r *Run) readProfile(h *head) error {
	if h.About.Schema != configs.TraceSchema {
		return fmt.Errorf("is a trace with schema %.80q, wanted %q, that of %v", h.About.Schema,
			configs.TraceSchema, hint.Profile)
	}
	p := &profileJSON{Backend: h.About.Backend}
	if err := p.read(h.Events); err != nil {
		return fmt.Errorf("has events that do not belong to a trace: %w; %s", err, wanted)
	}
	if len(p.Nodes) == 0 {
		return errors.New("is a trace without events of nodes; " + wanted)
	}
	for i := range p.Nodes {
		p.Nodes[i].Median = p.Nodes[i].median()
	}
	r.profile = p
	return nil
}

// read takes the events of nodes out of a list, one by one: other events take no memory.
func (p *profileJSON) read(list []byte) error {
	dec := json.NewDecoder(bytes.NewReader(list))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return cmp.Or(err, errors.New("traceEvents is no array"))
	}
	index := map[string]int{}
	for dec.More() {
		var e event
		if err := dec.Decode(&e); err != nil {
			return err
		}
		if e.Ph == "X" && e.Args.Op != "" {
			p.add(index, &e)
		}
	}
	return nil
}

// add counts the execution of a node. index has the places of nodes by their names.
func (p *profileJSON) add(index map[string]int, e *event) {
	at, ok := index[e.Name]
	if !ok {
		at = len(p.Nodes)
		index[e.Name] = at
		p.Nodes = append(p.Nodes, profileNodeJSON{Name: e.Name, Op: e.Args.Op})
	}
	n := &p.Nodes[at]
	n.Live = max(n.Live, e.Args.Live)
	n.times = append(n.times, nodeTime{e.Args.Step, e.Dur * 1e3})
	p.Steps = max(p.Steps, e.Args.Step+1)
}

// median is the median over the executions, without those of step 0 if there are others.
func (n *profileNodeJSON) median() int64 {
	later := slices.DeleteFunc(slices.Clone(n.times), func(t nodeTime) bool { return t.step == 0 })
	if len(later) == 0 {
		later = n.times
	}
	slices.SortFunc(later, func(a, b nodeTime) int { return cmp.Compare(a.took, b.took) })
	return nanoseconds((later[(len(later)-1)/2].took + later[len(later)/2].took) / 2 / 1e9)
}
