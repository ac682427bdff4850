package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"memopt/executor"
	"memopt/executor/null"
	"memopt/executor/ort"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/ortsim"
	"memopt/internal/cleanup"
	"memopt/internal/memlimit"
	"memopt/recompute"
	"memopt/report"
)

// ortRun is a side that runs in ONNX Runtime, with what its steps gave so far.
type ortRun struct {
	a       *app
	side    verify.Side
	dir     string // the model and what is exchanged
	folder  cleanup.Item
	process *ort.Process
	opened  *ort.Opened
	run     *verify.Run
	facts   *report.Runtime
	warmup  int
	total   int
	done    int
}

// executeORT runs one side in ONNX Runtime.
func (a *app) executeORT(side verify.Side, x *execution, ex *execFlags, opts verify.Options) (*verify.Run, *report.Runtime, error) {
	r, err := a.openORT(side, x, ex, opts)
	if err != nil {
		return nil, nil, err
	}
	defer r.close()
	if err := r.advance(r.total, opts.Progress); err != nil {
		return nil, nil, err
	}
	return r.run, r.facts, r.finish()
}

// openORT starts a process with a session for a side, whose file is what apply writes. The caller
// closes it.
func (a *app) openORT(side verify.Side, x *execution, ex *execFlags, opts verify.Options) (_ *ortRun, err error) {
	o, err := ex.ortOptions(&opts.Session)
	if err != nil {
		return nil, err
	}
	r := &ortRun{a: a, side: side, warmup: opts.Warmup, total: opts.Warmup + max(opts.Repeat, 1), run: &verify.Run{Threads: o.Threads}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	r.run.Predicted = a.predictORT(x, side, opts.Session)
	if p := r.run.Predicted; p.Live > 0 {
		if err := memlimit.Check(p.Live+p.Persistent, "what ONNX Runtime is predicted to take, %d bytes of values and %d of inputs and weights", p.Live, p.Persistent); err != nil {
			return nil, err
		}
	}
	if r.dir, r.folder, err = cleanup.Folder("", "memopt-ort-"); err != nil {
		return nil, usage("a folder for what ONNX Runtime reads cannot be made: %w", err)
	}
	if r.process, err = a.startORT(r.dir); err != nil { // before there is anything in the folder, which it removes where this process is killed
		return nil, err
	}
	a.warnDropouts(side.Model.Graph, o.Optimization)
	// The folder is this run's own: its files are no outputs, and one of an earlier run may have
	// had the same inode.
	if err := onnx.WriteFile(r.model(), recompute.Seed(side.Model, a.global.seed), onnx.Options{ExternalDataThreshold: ortExternal(side.Model.Graph)}); err != nil {
		return nil, usage("%w", err)
	}
	files, err := ort.WriteInputs(r.dir, ortInputs(side, x.inputs))
	if err != nil {
		return nil, usage("inputs for ONNX Runtime cannot be written: %w", err)
	}
	if r.opened, err = r.process.Open(r.model(), o, files); err != nil {
		return nil, r.failed(err)
	}
	info := r.process.Info()
	r.facts = &report.Runtime{Version: info.Version, Library: info.Path, Optimization: string(o.Optimization), MemPattern: !o.NoPattern, Arena: r.opened.Arena.Known,
		Parallel: o.Parallel, Exact: o.Split, Config: o.Config, Created: r.opened.Arena.InUse}
	return r, nil
}

// warnDropouts says, once, that stock ONNX Runtime takes Dropout nodes of a graph out.
func (a *app) warnDropouts(g *graph.Graph, level ort.Level) {
	lost := ortsim.LostDropouts(g)
	if len(lost) == 0 || level == ort.Disable || a.saidDropouts {
		return
	}
	a.saidDropouts = true
	a.warn("stock ONNX Runtime takes %d Dropout nodes out (the first is %q), whatever their training_mode says, because nobody reads their masks: its numbers are those without them; --ort-opt disable keeps them",
		len(lost), g.NodeLabel(lost[0]))
}

// model returns the name of the file that the runtime reads.
func (r *ortRun) model() string { return filepath.Join(r.dir, "model.onnx") }

// ortExternal returns the size from which on weights go to a file of their own, 0 where all stay in
// the model's: a file of ONNX cannot exceed 2 GiB.
func ortExternal(g *graph.Graph) int64 {
	const most, large = 3 << 29, 1 << 20
	var total int64
	for i := range g.Values {
		if d := g.Values[i].Data; d != nil && d.External == nil {
			n, _ := d.Bytes() // a faulty one is reported when it is written
			total += n
		}
		if total > most {
			return large
		}
	}
	return 0
}

// ortInputs lists what there is of a model's inputs, in its order.
func ortInputs(side verify.Side, inputs map[string]*executor.Tensor) []ort.Named {
	var list []ort.Named
	for _, d := range side.Model.Graph.Inputs {
		name := side.Model.Graph.Values[d.Value].Name
		if t := inputs[name]; t != nil {
			list = append(list, ort.Named{Name: name, Tensor: t})
		}
	}
	return list
}

// predictORT simulates a side: a training graph in the order in which ONNX Runtime executes it, and
// with its kernels. Where that fails nothing is predicted: whether the model runs is for ONNX
// Runtime to say.
func (a *app) predictORT(x *execution, side verify.Side, o executor.Options) executor.Prediction {
	out := executor.Prediction{PeakNode: graph.NoNode}
	peak, err := ortsim.Simulate(side.Model, side.Dims)
	known := err == nil
	if w := x.anchoring; w != nil && w.Simulated && x.changed && side.Model == x.planned.Model {
		peak, known = ortsim.Peaks{Live: w.Anchored, Arena: w.AnchoredArena}, true // which knows what shapes the file leaves open
	}
	o.Order, o.Dims, o.MemLimit = side.Order, side.Dims, 0
	s, err := executor.Open(a.ctx, side.Model, side.Types, null.Device{}, o)
	if err == nil {
		defer s.Close()
		out = s.Prediction()
	} else if !known {
		a.warn("no peak is predicted: %v", err)
	}
	if known {
		out.Live, out.Arena, out.PeakNode = peak.Live, peak.Arena, graph.NoNode
	}
	return out
}

// failed gives an error its code. The name of the temporary file in it would tell the user nothing.
func (r *ortRun) failed(err error) error {
	var e *ort.RuntimeError
	if errors.As(err, &e) {
		e.Message = strings.Replace(e.Message, "Load model from "+r.model()+" failed:", "", 1)
		e.Message = strings.ReplaceAll(e.Message, r.model(), "the model's file")
	}
	return classifyORT(r.side.Model.Graph, err)
}

// advance runs steps until n are done.
func (r *ortRun) advance(n int, progress func(done, total int)) error {
	for r.done < min(n, r.total) {
		s, err := r.process.Step()
		if err != nil {
			return r.failed(err)
		}
		r.note(s)
		if progress != nil {
			progress(r.done, r.total)
		}
	}
	return nil
}

// note takes down what a step took.
func (r *ortRun) note(s *ort.Step) {
	arena, resident := int64(0), int64(0)
	if s.Arena.Known {
		arena = s.Arena.MaxInUse - r.opened.Arena.InUse
	}
	if s.Resident > 0 {
		resident = max(s.Resident-r.opened.Resident, 0)
	}
	if r.done == 0 {
		r.run.Measured.Arena, r.run.Measured.Live, r.run.Resident = arena, arena, resident
		r.run.Arena = executor.ArenaStats{InUse: s.Arena.InUse, Peak: s.Arena.MaxInUse, Reserved: s.Arena.Total}
		r.facts.Bounded = s.Arena.Known && s.Arena.MaxInUse == r.opened.Arena.MaxInUse && s.Arena.MaxInUse > s.Arena.InUse
	} else {
		r.facts.LaterArena, r.facts.LaterResident = max(r.facts.LaterArena, arena), max(r.facts.LaterResident, resident)
		r.run.Arena.Reserved = max(r.run.Arena.Reserved, s.Arena.Total)
	}
	if r.done >= r.warmup && r.done < r.total {
		r.run.Times = append(r.run.Times, time.Duration(s.Nanoseconds))
	}
	r.run.Measured.Runs++
	r.done++
}

// finish fetches the outputs. Where only one step was asked for and the memory pattern is on, one
// more shows what later steps take; that it fails says nothing of the step that was asked for.
func (r *ortRun) finish() error {
	outputs, err := r.process.Outputs(r.dir)
	if err != nil {
		return r.failed(err)
	}
	for _, o := range outputs {
		r.run.Outputs = append(r.run.Outputs, verify.Output{Name: o.Name, Tensor: o.Tensor})
	}
	if r.total == 1 && r.facts.MemPattern && ortFits(2*max(r.run.Measured.Arena, r.run.Resident)) {
		if s, err := r.process.Step(); err == nil {
			reserved := r.run.Arena.Reserved
			r.note(s)
			r.run.Measured.Runs, r.run.Arena.Reserved = 1, reserved
		}
	}
	return r.a.ctx.Err()
}

// ortFits reports whether there is memory for so many bytes; a tenth stays for the rest of the
// machine.
func ortFits(n int64) bool {
	limit, ok := memlimit.Available()
	return !ok || n <= limit.Bytes/10*9
}

// close ends the process and removes what was exchanged with it.
func (r *ortRun) close() {
	if r.process != nil {
		r.process.Close()
		r.process = nil
	}
	r.folder.Undo()
}

// ortSides are the runtimes of a comparison.
type ortSides struct{ baseline, planned *report.Runtime }

// verifyORT runs both sides in ONNX Runtime and compares the outputs. Where several steps are
// measured and memory suffices for both, they run in turn, so that the ratio of their times is
// worth something on a busy machine.
func (a *app) verifyORT(x *execution, ex *execFlags, tol verify.Tolerance, opts verify.Options) (*verify.Verdict, ortSides, error) {
	if opts.Repeat <= 1 {
		return a.verifyORTApart(x, ex, tol, opts)
	}
	baseline, err := a.openORT(x.baseline, x, ex, opts)
	if err != nil {
		return nil, ortSides{}, fmt.Errorf("the baseline: %w", err)
	}
	defer baseline.close()
	if err := baseline.advance(1, nil); err != nil {
		return nil, ortSides{}, fmt.Errorf("the baseline: %w", err)
	}
	if need := 2 * max(baseline.run.Measured.Arena, baseline.run.Resident); !ortFits(2 * need) {
		baseline.close()
		return a.verifyORTApart(x, ex, tol, opts)
	}
	planned, err := a.openORT(x.planned, x, ex, opts)
	if err != nil {
		return nil, ortSides{}, fmt.Errorf("the planned graph: %w", err)
	}
	defer planned.close()
	for n := 1; n <= planned.total; n++ {
		if err := baseline.advance(n, nil); err != nil {
			return nil, ortSides{}, fmt.Errorf("the baseline: %w", err)
		}
		if err := planned.advance(n, opts.Progress); err != nil {
			return nil, ortSides{}, fmt.Errorf("the planned graph: %w", err)
		}
	}
	if err := baseline.finish(); err != nil {
		return nil, ortSides{}, err
	}
	if err := planned.finish(); err != nil {
		return nil, ortSides{}, err
	}
	v, err := compareORT(baseline.run, planned.run, tol)
	if err == nil {
		v.Alternated = true
	}
	return v, ortSides{baseline.facts, planned.facts}, err
}

// verifyORTApart runs one side after the other.
func (a *app) verifyORTApart(x *execution, ex *execFlags, tol verify.Tolerance, opts verify.Options) (*verify.Verdict, ortSides, error) {
	var sides ortSides
	b, facts, err := a.executeORT(x.baseline, x, ex, opts)
	if err != nil {
		return nil, sides, fmt.Errorf("the baseline: %w", err)
	}
	sides.baseline = facts
	p, facts, err := a.executeORT(x.planned, x, ex, opts)
	if err != nil {
		return nil, sides, fmt.Errorf("the planned graph: %w", err)
	}
	sides.planned = facts
	v, err := compareORT(b, p, tol)
	return v, sides, err
}

// compareORT compares every output of the baseline.
func compareORT(baseline, planned *verify.Run, tol verify.Tolerance) (*verify.Verdict, error) {
	byName := map[string]*executor.Tensor{}
	for _, o := range planned.Outputs {
		byName[o.Name] = o.Tensor
	}
	v := &verify.Verdict{Equal: true, Baseline: baseline, Planned: planned}
	for _, want := range baseline.Outputs {
		got := byName[want.Name]
		if got == nil {
			return nil, fmt.Errorf("%w: output %q of the first model is none of the second", verify.ErrOutputs, want.Name)
		}
		if d, _ := verify.Compare(want.Name, got, want.Tensor, tol); d != nil && v.Equal {
			v.Equal, v.First = false, d
		}
	}
	return v, nil
}

// aboveORT is the error of a rewritten graph that took more of the runtime's arena than was
// simulated: of its chunks where it may hand out larger ones than are asked for, else of live
// bytes, each value of which may take 256 bytes more. Of the baseline nothing is promised: the
// runtime's own order decides its peak.
func aboveORT(name string, p *verify.Run, facts *report.Runtime, values int, tolerance float64) error {
	const grain = 256
	promised, measured := p.Predicted.Live, p.Measured.Arena
	if !facts.Exact {
		promised = max(promised, p.Predicted.Arena)
	}
	if promised == 0 || !facts.Arena || float64(measured) <= float64(promised)*(1+tolerance)+float64(grain*values) {
		return nil
	}
	return &exitError{exitAbove, fmt.Errorf("%s: in ONNX Runtime %s the planned graph took %s of the arena, %s were predicted (%d and %d bytes; --peak-tolerance %g)",
		name, facts.Version, report.Bytes(measured), report.Bytes(promised), measured, promised, tolerance)}
}
