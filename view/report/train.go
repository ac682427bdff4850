package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"memopt/executor"
	"memopt/graph/live"
	"memopt/planner"
	"memopt/planner/offload"
	"memopt/recompute"
	"memopt/train/events"
)

// TrainSchema is the schema of the JSON of `memopt train`.
const TrainSchema = "memopt.train/v1"

// TrainView is a training job with the facts of the reports before and after it.
type TrainView struct {
	Backend           string
	Forward, Backward int64 // nodes
	Optimizer         string
	Frozen            int // parameters that are not trained
	Trained           int
	Elements          int64  // of the trained parameters
	Data              string // description of the data
	Batch, Micros     int64
	Updates           int64 // of the whole job
	Begun             int64 // updates that were made before, by the job that goes on
	PerEpoch          int64 // updates
	Plan              *planner.Plan
	Laid              *planner.Plan // whose memory the peak is: Plan, or that of its graph with moves
	Moves             *TrainMoves   // nil: no value may move to the host
	Home              *TrainHome    // nil: the states lie in memory
	Sizes             *TrainSizes   // nil: all batches have one size
	Inputs            int64         // bytes of a step's inputs
	States            int64         // bytes of weights, optimizer state and sums of gradients
	Arena             int64         // predicted bytes of the largest arena of all steps
	EvalArena         int64         // likewise of evaluations; 0 without evaluations
	Ranks, Zero       int           // processes that train together, and their stage of ZeRO
	Staging           int64         // bytes of the exchange buffers, beside Total
	Ahead             int64         // bytes of batches that are prepared on the host while a step runs, beside Total
	Notes             []string
	Step              *Step

	// The fields below are known at the end.
	Done, Skipped       int64
	LossFirst, LossLast float64
	EvalLast            float64 // NaN: there was no evaluation
	Measured            int64   // bytes of the arena; -1 before any run
	RankArenas          []int64 // Measured of each rank; nil for a single rank
	Process             executor.ProcessMemory
	Took                time.Duration
	Waited              time.Duration // of Took, for other ranks
	PerSecond           float64       // updates
	Stopped             bool
	Saved               string // the last checkpoint, or ""
	Folder              string // or ""
}

// TrainMoves are the values of a job's step that move to the host.
type TrainMoves struct {
	Link       offload.Link
	HostBudget int64
	Moves      int     // of a step
	Moved      int64   // bytes that a step copies to the host
	Overhead   float64 // of the step: recomputation and waiting for copies
	Host       int64   // predicted bytes on the host
	Measured   int64   // likewise; -1 before any run
	Ranks      []int64 // Measured of each rank; nil for a single rank
}

// TrainHome is the folder that the states of a job lie in.
type TrainHome struct {
	Folder string
	Bytes  int64 // of its files: the states, twice
	Budget int64 // of the host
}

// TrainSizes are the sizes of a job's batches, and their plans.
type TrainSizes struct {
	Symbol string      `json:"symbol"`
	Sizes  []int64     `json:"sizes"` // in ascending order
	Bands  []TrainBand `json:"bands"`
}

// TrainBand is a plan for sizes from Lo to Hi; the numbers are those at Hi.
type TrainBand struct {
	Lo       int64   `json:"from"`
	Hi       int64   `json:"to"`
	Arena    int64   `json:"arena_bytes"`
	Nodes    int     `json:"recomputed_nodes"`
	Overhead float64 `json:"overhead"`
}

// text is the bands with the further time of a step at the largest size of each.
func (s *TrainSizes) text() string {
	var bands []string
	for _, b := range s.Bands {
		bands = append(bands, fmt.Sprintf("%d..%d (%s more time)", b.Lo, b.Hi, Percent(b.Overhead)))
	}
	return fmt.Sprintf("for %s of %s", s.Symbol, strings.Join(bands, ", "))
}

// Total is the predicted peak.
func (v *TrainView) Total() int64 { return v.States + v.Inputs + max(v.Arena, v.EvalArena) }

// TrainStart writes the plan and the memory of a job, before its first step.
func TrainStart(w io.Writer, v *TrainView) error {
	if err := StepLine(w, TableFormat, v.Step); err != nil {
		return err
	}
	return v.start().WriteText(w)
}

// TrainForetold is TrainStart of a job that does not begin.
func TrainForetold(w io.Writer, format Format, v *TrainView) error {
	switch format {
	case JSONFormat:
		v.LossFirst, v.LossLast, v.Measured = math.NaN(), math.NaN(), -1
		return trainJSON(w, v)
	case CSVFormat:
		return v.start().WriteCSV(w)
	case MarkdownFormat:
		if err := StepLine(w, format, v.Step); err != nil {
			return err
		}
		return v.start().WriteMarkdown(w)
	}
	return TrainStart(w, v)
}

// TrainEvaluation writes the result of an evaluation alone.
func TrainEvaluation(w io.Writer, format Format, v *TrainView) error {
	t := Table{Header: []string{"item", "value", ""}, Fit: []Fit{Wrap, Wrap, Wrap}}
	t.Add("evaluation", lossText(v.EvalLast), "loss of "+v.Data)
	if v.Saved != "" {
		t.Add("checkpoint", v.Saved, fmt.Sprintf("after update %s", Thousands(v.Done)))
	}
	t.Add("time", fmt.Sprintf("%.2f s", v.Took.Seconds()), "on "+v.Backend)
	t.Add("predicted arena", Bytes(v.EvalArena), "")
	t.Add("measured arena", Bytes(v.Measured), comparedArena(v.Measured, v.EvalArena))
	switch format {
	case JSONFormat:
		return trainJSON(w, v)
	case CSVFormat:
		return t.WriteCSV(w)
	case MarkdownFormat:
		return t.WriteMarkdown(w)
	}
	return t.WriteText(w)
}

// start is the plan and the memory of a job.
func (v *TrainView) start() *Table {
	t := Table{Header: []string{"item", "value", ""}, Fit: []Fit{Wrap, Wrap, Wrap}}
	t.Add("training step", Thousands(v.Forward+v.Backward)+" nodes",
		fmt.Sprintf("%s forward, %s backward and update; on %s", Thousands(v.Forward), Thousands(v.Backward),
			v.Backend))
	frozen := ""
	if v.Frozen > 0 {
		frozen = fmt.Sprintf("; %s frozen", Thousands(int64(v.Frozen)))
	}
	t.Add("parameters", Thousands(v.Elements), fmt.Sprintf("in %s tensors, updated by %s%s",
		Thousands(int64(v.Trained)),
		v.Optimizer, frozen))
	t.Add("data", v.Data, "")
	if v.Ranks > 1 {
		t.Add("ranks", fmt.Sprint(v.Ranks), "each with batches of its own"+zeroTexts[v.Zero])
	}
	parts, samples := "", v.Batch*v.Micros*int64(max(v.Ranks, 1))
	if n := v.Micros * int64(max(v.Ranks, 1)); n > 1 {
		parts = fmt.Sprintf(" in %d micro-batches", n)
	}
	t.Add("updates", Thousands(v.Updates), fmt.Sprintf("of %s %s each%s; an epoch has %s",
		Thousands(samples),
		plural(int(samples), "sample", "samples"), parts, Thousands(v.PerEpoch)))
	if v.Begun > 0 {
		t.Add("going on", "", fmt.Sprintf("after update %s", Thousands(v.Begun)))
	}
	if s := v.Sizes; s != nil {
		first, last := s.Sizes[0], s.Sizes[len(s.Sizes)-1]
		t.Add("sizes", fmt.Sprint(len(s.Sizes)), fmt.Sprintf("of a batch, from %s=%d to %d", s.Symbol, first, last))
		if len(s.Bands) > 1 {
			t.Add("plans", fmt.Sprint(len(s.Bands)), s.text())
		}
	}
	if v.Plan != nil {
		t.Add("plan", fmt.Sprintf("%d nodes", v.Plan.Recompute.Nodes), v.planText())
	}
	if m := v.Moves; m != nil {
		t.Add("moved", Bytes(m.Moved), fmt.Sprintf("to the host in each step, in %d %s", m.Moves,
			plural(m.Moves, "move", "moves")))
	}
	v.addParts(&t)
	return &t
}

// zeroTexts are the parts shared by ranks, by the stage of ZeRO.
var zeroTexts = [...]string{"", "; they share the optimizer's states",
	"; they share the optimizer's states and gradients"}

// planText is the memory and cost of the plan.
func (v *TrainView) planText() string {
	p, over, beside := v.Plan, v.Plan.Overhead, ""
	if v.Moves != nil {
		over, beside = v.Moves.Overhead, ", waiting for copies included"
	}
	parts := ""
	switch {
	case p.Recompute.Nodes == 0 && p.Whole == nil && (v.Moves == nil || v.Moves.Moves == 0):
		return "no recomputation"
	case p.Recompute.Nodes == 0 && p.Whole == nil:
		return fmt.Sprintf("no recomputation: %s more time (estimate)%s; peak %s → %s", Percent(over), beside,
			Bytes(p.Baseline().Base.Peak.Bytes), Bytes(v.Laid.Planned.Peak.Bytes))
	}
	if text := p.FissionText(); text != "" {
		parts = "; " + text
	}
	return fmt.Sprintf("are computed again%s: %s more time (estimate)%s; peak %s → %s", parts, Percent(over), beside,
		Bytes(p.Baseline().Base.Peak.Bytes), Bytes(v.Laid.Planned.Peak.Bytes))
}

// parts are the predicted peak by kind; nil if it is not known.
func (v *TrainView) parts() *live.Parts {
	if v.Laid == nil {
		return nil
	}
	at, gaps := v.Laid.AtPeak()
	if at == nil {
		return nil
	}
	// The peak is that of the update, while gradients are accumulated.
	at.State += v.States + v.Inputs - v.Laid.Persistent
	if at.State < 0 { // scalars that the loop fills, such as the learning rate, are inputs of the plan alone
		at.Weights, at.State = at.Weights+at.State, 0
	}
	at.Temporaries += gaps + max(v.Arena, v.EvalArena) - v.Laid.Arena.Bytes
	return at
}

// addParts adds the predicted peak by kind.
func (v *TrainView) addParts(t *Table) {
	each := ""
	if v.Ranks > 1 {
		each = " on each rank"
	}
	t.Add("predicted peak", Bytes(v.Total()), fmt.Sprintf("%s that stay and an arena of %s%s",
		Bytes(v.States+v.Inputs), Bytes(max(v.Arena, v.EvalArena)), each))
	at := v.parts()
	if at == nil {
		return
	}
	for _, part := range parts {
		if n := part.bytes(at); n != 0 {
			t.Add("  "+lower(part.name), Bytes(n), "")
		}
	}
	if m := v.Moves; m != nil && m.Host > 0 {
		t.Add("beside it", Bytes(m.Host), fmt.Sprintf("on the host: values that move there%s, within %s", each,
			Bytes(m.HostBudget)))
	}
	if h := v.Home; h != nil {
		t.Add("beside it", Bytes(h.Bytes), fmt.Sprintf("in %s: the states, twice, within %s", h.Folder,
			Bytes(h.Budget)))
	}
	if v.Ahead > 0 {
		t.Add("beside it", Bytes(v.Ahead), "on the host: batches that are prepared while a step runs")
	}
	if v.Staging > 0 {
		t.Add("beside it", Bytes(v.Staging), "data on its way between ranks")
	}
}

// lower makes the first letter of an English phrase small.
func lower(text string) string { return string(text[0]-'A'+'a') + text[1:] }

// TrainReport writes how a job ended.
func TrainReport(w io.Writer, format Format, v *TrainView) error {
	if format == JSONFormat {
		return trainJSON(w, v)
	}
	t := Table{Header: []string{"item", "value", ""}, Fit: []Fit{Wrap, Wrap, Wrap}}
	var end []string
	if v.Stopped {
		end = append(end, "stopped by a signal")
	}
	if v.Skipped > 0 {
		end = append(end, Thousands(v.Skipped)+" left out, or made without a batch, because numbers were not finite")
	}
	t.Add("updates", fmt.Sprintf("%s of %s", Thousands(v.Done), Thousands(v.Updates)), strings.Join(end, "; "))
	t.Add("loss", lossText(v.LossLast), "of the last update; of the first "+lossText(v.LossFirst))
	if !math.IsNaN(v.EvalLast) {
		t.Add("evaluation", lossText(v.EvalLast), "loss of the data for evaluation")
	}
	t.Add("time", fmt.Sprintf("%.2f s", v.Took.Seconds()), perSecond(v.PerSecond)+" updates per second")
	if v.Ranks > 1 {
		t.Add("  waited", fmt.Sprintf("%.2f s", v.Waited.Seconds()), "for data of other ranks")
	}
	arena := max(v.Arena, v.EvalArena)
	t.Add("predicted arena", Bytes(arena), "")
	t.Add("measured arena", Bytes(v.Measured), comparedArena(v.Measured, arena))
	if len(v.RankArenas) > 1 {
		lo, hi := slices.Min(v.RankArenas), slices.Max(v.RankArenas)
		text := "each " + Bytes(lo)
		if lo != hi {
			text = Bytes(lo) + " to " + Bytes(hi)
		}
		t.Add("of all ranks", text, comparedArena(hi, arena))
	}
	if m := v.Moves; m != nil && m.Host > 0 {
		t.Add("on the host", Bytes(m.Measured), "values that move there; "+comparedArena(m.Measured, m.Host))
	}
	t.Add("predicted peak", Bytes(v.Total()), "with weights, optimizer state and inputs")
	if v.Process.Peak > 0 {
		t.Add("process", Bytes(v.Process.Peak), "the most that was resident (VmHWM), with the program itself")
	}
	if v.Saved != "" {
		t.Add("checkpoint", v.Saved, "")
	}
	switch format {
	case CSVFormat:
		return t.WriteCSV(w)
	case MarkdownFormat:
		return t.WriteMarkdown(w)
	}
	return t.WriteText(w)
}

// comparedArena compares a measured arena with the planned one.
func comparedArena(measured, planned int64) string {
	switch {
	case measured == planned:
		return "equal to the prediction, to the byte"
	case planned == 0:
		return ""
	}
	return fmt.Sprintf("%+.2f %% against the prediction", 100*(float64(measured)/float64(planned)-1))
}

// lossText is a loss with the digits that float32 has.
func lossText(x float64) string {
	if math.IsNaN(x) {
		return "none"
	}
	return fmt.Sprintf("%.6g", x)
}

type trainJSONView struct {
	Schema    string          `json:"schema"`
	Step      *Step           `json:"step"`
	Backend   string          `json:"backend"`
	Steps     int64           `json:"steps"` // updates that were made
	Updates   int64           `json:"updates"`
	Skipped   int64           `json:"skipped"`
	Stopped   bool            `json:"stopped"`
	LossFirst events.Number   `json:"loss_first"`
	LossLast  events.Number   `json:"loss_last"`
	EvalLast  *events.Number  `json:"eval_loss_last"`
	Peak      trainPeakJSON   `json:"peak"`
	AtPeak    atPeakJSON      `json:"at_peak"`
	Moves     *trainMovesJSON `json:"moves"`
	Home      *trainHomeJSON  `json:"home"`
	Sizes     *TrainSizes     `json:"sizes"`
	TimeMS    float64         `json:"time_ms"`
	WaitedMS  float64         `json:"waited_ms"`
	PerSecond float64         `json:"steps_per_s"`
	Saved     *string         `json:"checkpoint"`
	Rank      int             `json:"rank"`
	Ranks     int             `json:"ranks"`
	Zero      int             `json:"zero"`
}

type trainPeakJSON struct {
	recompute.PeakRecord
	Ahead         int64   `json:"ahead_bytes"`
	Staging       int64   `json:"staging_bytes"`
	MeasuredArena *int64  `json:"measured_arena_bytes"`
	RankArenas    []int64 `json:"rank_arena_bytes"`
	RSS           int64   `json:"rss_bytes"`
}

// trainHomeJSON is about the folder that the states of a job lie in.
type trainHomeJSON struct {
	Folder string `json:"folder"`
	Bytes  int64  `json:"bytes"`
	Budget int64  `json:"host_budget"`
}

// trainMovesJSON is about the values of a step that move to the host.
type trainMovesJSON struct {
	Link       linkJSON `json:"link"`
	HostBudget int64    `json:"host_budget"`
	Moves      int      `json:"moves"`
	Moved      int64    `json:"moved_bytes"`
	Overhead   float64  `json:"overhead"`
	Planned    int64    `json:"planned_bytes"`
	Measured   *int64   `json:"measured_bytes"`
	Ranks      []int64  `json:"rank_bytes"`
}

// json is the record of moves; nil where no value may move.
func (m *TrainMoves) json() *trainMovesJSON {
	if m == nil {
		return nil
	}
	j := &trainMovesJSON{Link: newLinkJSON(m.Link), HostBudget: m.HostBudget, Moves: m.Moves, Moved: m.Moved,
		Overhead: m.Overhead, Planned: m.Host, Ranks: []int64{}}
	if m.Measured >= 0 {
		j.Measured, j.Ranks = &m.Measured, []int64{m.Measured}
	}
	if m.Ranks != nil {
		j.Ranks = m.Ranks
	}
	return j
}

func trainJSON(w io.Writer, v *TrainView) error {
	out := trainJSONView{Schema: TrainSchema, Step: v.Step, Backend: v.Backend, Steps: v.Done,
		Updates: v.Updates, Skipped: v.Skipped,
		Stopped: v.Stopped, LossFirst: events.Number(v.LossFirst), LossLast: events.Number(v.LossLast),
		TimeMS: float64(v.Took.Microseconds()) / 1000, PerSecond: v.PerSecond, Ranks: max(v.Ranks, 1),
		Zero: v.Zero, Moves: v.Moves.json(), Sizes: v.Sizes, WaitedMS: float64(v.Waited.Microseconds()) / 1000}
	if h := v.Home; h != nil {
		out.Home = &trainHomeJSON{h.Folder, h.Bytes, h.Budget}
	}
	if !math.IsNaN(v.EvalLast) {
		loss := events.Number(v.EvalLast)
		out.EvalLast = &loss
	}
	if v.Plan != nil {
		if at := v.parts(); at != nil {
			out.AtPeak = atPeakJSON{&at.Weights, &at.State, &at.Gradients, &at.Activations, &at.Temporaries,
				&at.Workspace}
		}
		if r := v.Plan.PeakRecord(); r != nil {
			out.Peak.PeakRecord = *r
		}
		if v.Moves != nil && v.Laid.Planned != nil {
			out.Peak.PlannedBytes = v.Laid.Planned.Peak.Bytes
		}
	}
	out.Peak.ArenaBytes = max(v.Arena, v.EvalArena)
	out.Peak.PersistentBytes = v.States + v.Inputs
	out.Peak.TotalBytes = v.Total()
	out.Peak.Ahead, out.Peak.Staging = v.Ahead, v.Staging
	switch out.Peak.RankArenas = v.RankArenas; {
	case v.Measured < 0:
		out.Peak.RankArenas = []int64{}
	case v.RankArenas == nil:
		out.Peak.RankArenas = []int64{v.Measured}
	}
	if out.Peak.RSS = v.Process.Peak; v.Measured >= 0 {
		out.Peak.MeasuredArena = &v.Measured
	}
	if v.Saved != "" {
		out.Saved = &v.Saved
	}
	return WriteJSON(w, out)
}

// perSecond is a rate with three digits or more, the point among them.
func perSecond(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
