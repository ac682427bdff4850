package report

import (
	"fmt"
	"io"
	"math"
	"time"

	"memopt/executor"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/internal/library"
)

// RunSchema is the schema of the JSON of `memopt run`.
const RunSchema = "memopt.run/v1"

// RunView is an execution with the facts of its report.
type RunView struct {
	Run     *verify.Run
	Backend string
	Steps   int // all of them
	Warmup  int // those of them before the measured ones
	Graph   *graph.Graph
	// Backward is how many nodes of the graph are its backward half: 0 for a forward model.
	Backward int
	Planned  bool // memory pattern on
	Virtual  bool // without computation
	Checks   []Check
	Phases   []Phase
	Listed   int // how many outputs the table lists besides those that differ; -1: all
	// Libraries are the C libraries that have been opened so far.
	Libraries []library.Opened
}

// executes names the executed graph: a training step, or the forward half alone.
func (v *RunView) executes() string {
	if v.Backward > 0 {
		return "training_step"
	}
	return "forward"
}

// executed describes in words the executed graph and its source.
func (v *RunView) executed() (what, note string) {
	what, note = "forward only", fmt.Sprintf("%s nodes, no backward half", Thousands(int64(len(v.Graph.Nodes))))
	if v.Backward > 0 {
		what, note = "training step", fmt.Sprintf("%s nodes forward, %s backward",
			Thousands(int64(len(v.Graph.Nodes)-v.Backward)), Thousands(int64(v.Backward)))
	}
	note += fmt.Sprintf("; %d %s", v.Steps, plural(v.Steps, "step", "steps"))
	if v.Warmup > 0 {
		note += fmt.Sprintf(", %d of them to warm up", v.Warmup)
	}
	return what, note
}

// Check is how an output compares with an expected one.
type Check struct {
	Output string
	MaxAbs float64
	Equal  bool
}

// Phase is a half of a training step.
type Phase struct {
	Name      string
	Allocated int64 // bytes live at its end
	Peak      int64 // the most that was live in it
}

type runJSON struct {
	Schema  string `json:"schema"`
	Backend string `json:"backend"`
	// Executes is training_step, or forward for a model without a backward half.
	Executes string        `json:"executes"`
	Threads  int           `json:"threads"`
	Steps    int           `json:"steps"`
	Warmup   int           `json:"warmup"` // how many of the steps were not measured
	Peak     runPeakJSON   `json:"peak"`
	Time     *timeJSON     `json:"time_ms"`
	Phases   []phaseJSON   `json:"phases,omitempty"`
	Feeds    []feedJSON    `json:"gradients,omitempty"`
	Copies   *copiesJSON   `json:"copies,omitempty"`
	Moves    *movesRunJSON `json:"moves,omitempty"`
	// OnHost counts nodes that the host runs although there is a device, by reason.
	OnHost map[string]int `json:"on_host,omitempty"`
	// NotCaptured is the reason why steps are not captured although capture was asked for.
	NotCaptured string        `json:"not_captured,omitempty"`
	Remarks     []string      `json:"device_remarks,omitempty"`
	Library     *libraryJSON  `json:"cudnn,omitempty"`
	Libraries   []openedJSON  `json:"libraries,omitempty"`
	Runtime     *runtimeJSON  `json:"runtime,omitempty"`
	Outputs     []outputsJSON `json:"outputs"`
}

type runPeakJSON struct {
	PredictedLive   int64   `json:"predicted_live_bytes"`
	Arena           int64   `json:"arena_bytes"`
	LowerBound      int64   `json:"arena_lower_bound_bytes"`
	MeasuredArena   int64   `json:"measured_arena_bytes"`
	MeasuredLive    int64   `json:"measured_live_bytes"`
	Dynamic         int64   `json:"dynamic_bytes"`
	Workspace       int64   `json:"workspace_bytes"`
	Persistent      int64   `json:"persistent_bytes"`
	Device          int64   `json:"device_bytes"`
	DeviceGrowth    *int64  `json:"device_growth_bytes,omitempty"`
	DeviceWeights   *int64  `json:"device_weights_bytes,omitempty"`
	RSS             int64   `json:"rss_bytes"`
	Node            *string `json:"node"`
	DataDependent   int     `json:"data_dependent_values"`
	MemoryPlannedOn bool    `json:"mem_pattern"`
}

// openedJSON is a C library that was opened.
type openedJSON struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// copiesJSON counts copies between host and device in all steps.
type copiesJSON struct {
	ToDevice        int   `json:"to_device"`
	FromDevice      int   `json:"from_device"`
	ToDeviceBytes   int64 `json:"to_device_bytes"`
	FromDeviceBytes int64 `json:"from_device_bytes"`
}

// movesRunJSON is about values that lie in the host's memory for a time, in all steps.
type movesRunJSON struct {
	HostLive      int64   `json:"predicted_live_bytes"`
	Host          int64   `json:"planned_bytes"`
	MeasuredHost  int64   `json:"measured_bytes"`
	ToHost        int     `json:"to_host"`
	FromHost      int     `json:"from_host"`
	ToHostBytes   int64   `json:"to_host_bytes"`
	FromHostBytes int64   `json:"from_host_bytes"`
	Waited        float64 `json:"waited_ms"`
}

type timeJSON struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

type phaseJSON struct {
	Name      string `json:"name"`
	Allocated int64  `json:"allocated_bytes"`
	Peak      int64  `json:"peak_bytes"`
}

type feedJSON struct {
	Value string `json:"value"`
	Given bool   `json:"given"`
}

type outputsJSON struct {
	Name       string   `json:"name"`
	DType      string   `json:"dtype"`
	Shape      []int    `json:"shape"`
	Checked    bool     `json:"checked"`
	MaxAbsDiff *float64 `json:"max_abs_diff"`
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func newRunJSON(v *RunView) *runJSON {
	r := v.Run
	j := &runJSON{Schema: RunSchema, Backend: v.Backend, Executes: v.executes(), Threads: r.Threads, Steps: v.Steps,
		Warmup: v.Warmup, Outputs: []outputsJSON{}, Peak: runPeakJSON{
			PredictedLive: r.Predicted.Live, Arena: r.Predicted.Arena, LowerBound: r.Predicted.LowerBound,
			MeasuredArena: r.Measured.Arena,
			MeasuredLive:  r.Measured.Live, Dynamic: r.Measured.Dynamic, Workspace: r.Predicted.Workspace,
			Persistent: r.Predicted.Persistent,
			Device:     r.Arena.Reserved, RSS: r.Resident, DataDependent: len(r.Predicted.Unsized),
			MemoryPlannedOn: v.Planned}}
	if r.Predicted.PeakNode != graph.NoNode {
		label := v.Graph.NodeLabel(r.Predicted.PeakNode)
		j.Peak.Node = &label
	}
	if len(r.Times) > 0 {
		j.Time = &timeJSON{ms(r.Min()), ms(r.Median()), ms(r.Max())}
	}
	j.Runtime = newRuntimeJSON(v)
	if r.DeviceGrowth > 0 {
		j.Peak.DeviceGrowth, j.Peak.DeviceWeights = &r.DeviceGrowth, &r.Weights.Reserved
	}
	if c := r.Measured.Copies; c != (executor.Copies{}) {
		j.Copies = &copiesJSON{c.In, c.Out, c.InBytes, c.OutBytes}
	}
	if p, m := r.Predicted, r.Measured; p.Host > 0 {
		j.Moves = &movesRunJSON{p.HostLive, p.Host, m.Host, m.Moved.Out, m.Moved.In, m.Moved.OutBytes, m.Moved.InBytes,
			ms(m.Moved.Waited)}
	}
	j.Remarks = r.Remarks
	j.Library = newLibraryJSON(r)
	for _, o := range v.Libraries {
		j.Libraries = append(j.Libraries, openedJSON{o.Name, o.Path})
	}
	for _, n := range r.HostNodes {
		if j.OnHost == nil {
			j.OnHost = map[string]int{}
		}
		j.OnHost[n.Why]++
	}
	j.NotCaptured = r.WhyNoCapture
	for _, p := range v.Phases {
		j.Phases = append(j.Phases, phaseJSON(p))
	}
	for _, f := range r.Feeds {
		j.Feeds = append(j.Feeds, feedJSON{v.Graph.ValueName(f.Value), f.Given})
	}
	for _, o := range r.Outputs {
		out := outputsJSON{Name: o.Name, DType: o.Tensor.DType.String(), Shape: append([]int{}, o.Tensor.Shape...)}
		for _, c := range v.Checks {
			if c.Output == o.Name {
				out.Checked = true
				if !math.IsNaN(c.MaxAbs) && !math.IsInf(c.MaxAbs, 0) { // JSON has neither
					out.MaxAbsDiff = &c.MaxAbs
				}
			}
		}
		j.Outputs = append(j.Outputs, out)
	}
	return j
}

// RunReport writes the memory and the results of a run.
func RunReport(w io.Writer, format Format, v *RunView) error {
	if format == JSONFormat {
		return WriteJSON(w, newRunJSON(v))
	}
	if format == TableFormat {
		for _, p := range v.Phases {
			if _, err := fmt.Fprintf(w, "%s end: %s allocated, peak %s\n", p.Name, Bytes(p.Allocated),
				Bytes(p.Peak)); err != nil {
				return err
			}
		}
	}
	t := Table{Header: []string{"item", "value", ""}, Right: []bool{false, true, false},
		Fit: []Fit{Wrap, Wrap, Wrap}}
	t.runRows(v)
	if err := t.WriteAs(w, format); err != nil || format != TableFormat || v.Virtual {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := v.outputTable().write(w); err != nil {
		return err
	}
	return v.writeFacts(w, "Note: ")
}

// runRows adds the figures of a run.
func (t *Table) runRows(v *RunView) {
	r := v.Run
	threads := fmt.Sprintf("%d threads", r.Threads)
	if r.Threads == 0 {
		threads = "threads chosen by the runtime"
	}
	t.Add("backend", v.Backend, threads)
	what, of := v.executed()
	t.Add("executed", what, of)
	if len(r.Times) > 0 && !v.Virtual {
		t.Add("time of a step",
			duration(r.Median()),
			fmt.Sprintf("median of %d; min %s, max %s", len(r.Times), duration(r.Min()), duration(r.Max())))
	}
	note := ""
	if r.Predicted.PeakNode != graph.NoNode {
		note = "at " + v.Graph.NodeLabel(r.Predicted.PeakNode)
	}
	t.Add("predicted live", Bytes(r.Predicted.Live), note)
	if r.Predicted.Workspace > 0 {
		t.Add("largest workspace", Bytes(r.Predicted.Workspace), "of one node; included in the "+
			"other lines")
	}
	t.arenaRows(v)
	if r.Measured.Dynamic > 0 {
		t.Add("beside the plan", Bytes(r.Measured.Dynamic),
			fmt.Sprintf("allocated during the run: %d values whose size depends on data, and "+
				"subgraphs",
				len(r.Predicted.Unsized)))
	}
	t.Add("inputs and weights", Bytes(r.Predicted.Persistent), "live throughout; not included in "+
		"other lines")
	if r.Resident > 0 && !v.Virtual {
		t.Add("process", Bytes(r.Resident), "growth of resident memory (VmHWM - VmRSS before the first step)")
	}
	if r.DeviceGrowth > 0 {
		own := r.DeviceGrowth - r.Arena.Reserved - r.Weights.Reserved
		t.Add("GPU memory",
			Bytes(r.DeviceGrowth),
			fmt.Sprintf("as counted by its driver: arena %s, inputs and weights %s, the driver's "+
				"own %s",
				Bytes(r.Arena.Reserved), Bytes(r.Weights.Reserved), Bytes(own)))
	}
	t.libraryRows(r)
	if n := len(r.HostNodes); n > 0 {
		t.Add("nodes on the host", fmt.Sprint(n), "such as "+r.HostNodes[0].Label+": "+r.HostNodes[0].Why)
	}
	for _, remark := range r.Remarks {
		t.Add("device", "", remark)
	}
	if c := r.Measured.Copies; c != (executor.Copies{}) {
		t.Add("copies",
			fmt.Sprint(c.In+c.Out),
			fmt.Sprintf("in all steps: %s to the device, %s from the device", Bytes(c.InBytes), Bytes(c.OutBytes)))
	}
	if r.Predicted.Host > 0 {
		m := r.Measured.Moved
		t.Add("on the host", Bytes(r.Measured.Host), "of values that move there; "+
			relative(r.Measured.Host-r.Predicted.Host))
		if m.Out+m.In > 0 {
			t.movesRow(m)
		}
	}
	if r.WhyNoCapture != "" {
		t.Add("not captured", "", r.WhyNoCapture)
	}
	for _, f := range r.Feeds {
		t.Add("gradient", v.Graph.ValueName(f.Value), sourceOf(f))
	}
}

// sourceOf says where a gradient comes from that a boundary node hands out.
func sourceOf(f executor.Feed) string {
	switch {
	case f.Given:
		return "as given"
	case f.Made == executor.LossGradient:
		return "1, that of the loss by itself"
	case f.Made == executor.ZeroGradient:
		return "zeros, because the loss has the gradient"
	}
	return "equal to the forward half's output, because no gradient is given"
}

func (t *Table) arenaRows(v *RunView) {
	r := v.Run
	if v.Run.Runtime != nil {
		t.runtimeRows(v)
		return
	}
	if !v.Planned {
		t.Add("arena in use",
			Bytes(r.Measured.Arena),
			fmt.Sprintf("peak, on demand; %s reserved in %d regions", Bytes(r.Arena.Reserved), r.Arena.Regions))
		return
	}
	gap := "equal to the lower bound"
	if r.Predicted.Arena > r.Predicted.LowerBound && r.Predicted.LowerBound > 0 {
		gap = fmt.Sprintf("%.2f %% above the lower bound",
			100*(float64(r.Predicted.Arena)/float64(r.Predicted.LowerBound)-1))
	}
	t.Add("planned arena", Bytes(r.Predicted.Arena), gap)
	t.Add("measured arena", Bytes(r.Measured.Arena), relative(r.Measured.Arena-r.Predicted.Arena))
}

// movesRow adds the number, bytes and time of copies to the host and back.
func (t *Table) movesRow(m executor.Moved) {
	t.Add("moves", fmt.Sprint(m.Out+m.In),
		fmt.Sprintf("in all steps: %s to the host, %s back; nodes waited %s for them",
			Bytes(m.OutBytes), Bytes(m.InBytes), duration(m.Waited)))
}

// relative says how measured bytes differ from those of the plan.
func relative(d int64) string {
	if d == 0 {
		return "equal to the plan, to the byte"
	}
	return fmt.Sprintf("%+d bytes relative to the plan", d)
}

func duration(d time.Duration) string { return fmt.Sprintf("%.2f ms", ms(d)) }

// outputTable lists the first outputs and those that differ from the expected ones.
func (v *RunView) outputTable() *titled {
	t := &titled{table: Table{Header: []string{"output", "type", "check"},
		Fit: []Fit{Cut, Wrap, Wrap}}}
	left := 0
	for i, o := range v.Run.Outputs {
		check, differs := "", false
		for _, c := range v.Checks {
			if c.Output == o.Name {
				check, differs = fmt.Sprintf("equal; largest difference %.3g", c.MaxAbs), !c.Equal
				if differs {
					check = fmt.Sprintf("DIFFERS; largest difference %.3g", c.MaxAbs)
				}
			}
		}
		if v.Listed >= 0 && i >= v.Listed && !differs {
			left++
			continue
		}
		t.table.Add(o.Name, o.Tensor.String(), check)
	}
	if left > 0 {
		t.note = fmt.Sprintf("… and %d more; -v lists all.\n", left)
	}
	return t
}

// Checked compares outputs with expected ones and fills in the view's checks.
func (v *RunView) Checked(want []verify.Output, tol verify.Tolerance) (first *verify.Difference) {
	for _, w := range want {
		for _, o := range v.Run.Outputs {
			if o.Name != w.Name {
				continue
			}
			d, abs := verify.Compare(o.Name, o.Tensor, w.Tensor, tol)
			v.Checks = append(v.Checks, Check{o.Name, abs, d == nil})
			if d != nil && first == nil {
				first = d
			}
		}
	}
	return first
}
