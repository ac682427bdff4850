package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"memopt/configs"
	"memopt/executor"
	"memopt/executor/cuda"
	"memopt/executor/dataset"
	"memopt/executor/npz"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/recompute"
	"memopt/report"
	"memopt/symbolic"
)

// execFlags are the flags of the verbs that execute.
type execFlags struct {
	backend     string
	dataDir     string
	saveOutputs string
	init        string
	repeat      int
	warmup      int
	memLimit    string
	memPattern  string
	strategy    string
	cudaGraph   bool
	blocking    bool
	tf32        bool
	convSearch  string
	convRoom    string
	atol, rtol  float64
	ort         ortFlags
	// differentiate says that forward models become training graphs first, selection or not.
	differentiate bool
}

func (e *execFlags) register(f *pflag.FlagSet) {
	f.StringVarP(&e.backend, "backend", "e", "cpu", "what executes: cpu; cuda, or cuda:N for GPU number N; ort, which is ONNX Runtime's library; or null, which computes nothing and counts memory")
	f.StringVar(&e.dataDir, "data-dir", "", "inputs: a folder with input_N.pb by graph input order (output_N.pb are compared with), or an .npz file")
	f.StringVar(&e.saveOutputs, "save-outputs", "", "write the outputs: to a folder as NAME.pb, or to an .npz file")
	f.StringVar(&e.init, "init", "", "random:SEED makes up inputs and weights that have no data")
	f.IntVarP(&e.repeat, "repeat", "r", 1, "measured steps")
	f.IntVar(&e.warmup, "warmup", 0, "steps before the measured ones")
	f.StringVar(&e.memLimit, "mem-limit", "", "the most that the arena may take, for example 2GiB")
	f.StringVar(&e.memPattern, "mem-pattern", "on", "on: all offsets are planned before the run; off: memory is taken when a value is made")
	f.StringVar(&e.strategy, "arena-extend-strategy", executor.NextPowerOfTwo.String(), "how the arena grows on demand: kNextPowerOfTwo or kSameAsRequested")
	e.ort.register(f)
	f.BoolVar(&e.cudaGraph, "cuda-graph", false, "capture a step as a CUDA graph and replay it, where the host has no part in the step")
	f.BoolVar(&e.tf32, "tf32", false, "let a GPU round the operands of float32 products to 10 bits (TF32)")
	f.StringVar(&e.convSearch, "cudnn-conv-algo-search", "heuristic", "how a GPU's algorithm for a convolution is found, as by ONNX Runtime's cudnn_conv_algo_search: heuristic, exhaustive, which times all of them and may choose others the next time, or default")
	f.StringVar(&e.convRoom, "cudnn-conv-use-max-workspace", "on", "off leaves out algorithms for convolutions that want more than 32 MiB, as ONNX Runtime's cudnn_conv_use_max_workspace=0")
	f.BoolVar(&e.blocking, "blocking", false, "wait for the GPU after every node, so that a fault is reported with the node that caused it")
	f.Float64Var(&e.atol, "atol", verify.DefaultTolerance.Abs, "absolute tolerance of comparisons that are not bitwise")
	f.Float64Var(&e.rtol, "rtol", verify.DefaultTolerance.Rel, "relative tolerance of comparisons that are not bitwise")
}

// options makes the executor's options of the flags.
func (e *execFlags) options(a *app) (verify.Options, error) {
	var o verify.Options
	var err error
	if o.Device, err = backend(e.backend); err != nil {
		return o, err
	}
	if e.repeat < 1 || e.warmup < 0 {
		return o, usage("--repeat %d --warmup %d: wanted at least 1 measured step and no negative number", e.repeat, e.warmup)
	}
	if a.global.threads < 0 {
		return o, usage("--threads %d: wanted 0 (one per core) or more", a.global.threads)
	}
	o.Repeat, o.Warmup = e.repeat, e.warmup
	s := &o.Session
	s.Threads, s.Seed = a.global.threads, uint64(a.global.seed)
	s.Capture, s.Blocking = e.cudaGraph, e.blocking
	if err := e.gpuOptions(o.Device); err != nil {
		return o, err
	}
	switch e.memPattern {
	case "on", "off":
		s.OnDemand = e.memPattern == "off"
	default:
		return o, usage("--mem-pattern %q: wanted on or off", e.memPattern)
	}
	if s.Strategy, err = executor.ParseExtendStrategy(e.strategy); err != nil {
		return o, usage("--arena-extend-strategy: %w", err)
	}
	if e.memLimit != "" {
		if s.MemLimit, err = report.ParseBytes(e.memLimit); err != nil || s.MemLimit <= 0 {
			return o, usage("--mem-limit %q: wanted a positive size such as 2GiB", e.memLimit)
		}
	}
	if isORT(o.Device) {
		if err := a.checkORT(e, s); err != nil {
			return o, err
		}
	}
	o.Progress = a.progress("steps")
	return o, nil
}

// gpuOptions checks the flags of GPUs, and hands them to the device where it is one.
func (e *execFlags) gpuOptions(device executor.Device) error {
	search, err := cuda.ParseConvSearch(e.convSearch)
	if err != nil {
		return usage("--cudnn-conv-algo-search %w", err)
	}
	if e.convRoom != "on" && e.convRoom != "off" {
		return usage("--cudnn-conv-use-max-workspace %q: wanted on or off", e.convRoom)
	}
	if d, ok := device.(*cuda.Device); ok {
		d.AllowTF32(e.tf32)
		d.ChooseConvolutions(search, e.convRoom == "off")
	}
	return nil
}

func (e *execFlags) tolerance() verify.Tolerance {
	return verify.Tolerance{Abs: e.atol, Rel: e.rtol}
}

// progress returns a function that moves a bar on the error stream, or nil where that is
// no terminal.
func (a *app) progress(what string) func(done, total int) {
	f, ok := a.err.(*os.File)
	if !ok || a.global.quiet || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		if total < 2 {
			return
		}
		if bar == nil || bar.GetMax() != total {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
		}
		bar.Set(done)
	}
}

// spinner returns a function that shows what a long search has found so far on the error stream, or
// nil where that is no terminal.
func (a *app) spinner(what string) func(text string) {
	f, ok := a.err.(*os.File)
	if !ok || a.global.quiet || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish())
	return func(text string) {
		bar.Describe(text)
		bar.Add(1)
	}
}

// execution is what run and verify execute.
type execution struct {
	l        *loaded
	plan     *planner.Plan // nil where the graph has no boundary
	baseline verify.Side
	planned  verify.Side // the baseline where nothing is selected
	changed  bool        // whether planned is another graph
	// anchoring is what holds the planned graph's order in ONNX Runtime; nil elsewhere.
	anchoring *planner.Anchoring
	origins   []string // by node of the planned graph: what a clone is a clone of, else ""; nil where nothing is changed
	set       *dataset.Set
	inputs    map[string]*executor.Tensor
}

// side returns what run executes: the planned graph.
func (x *execution) side() verify.Side { return x.planned }

// prepareExecution loads a model and its data, plans it and rewrites it.
func (a *app) prepareExecution(name string, sel *selectionFlags, ex *execFlags) (*execution, error) {
	l, err := a.load(name)
	if err != nil {
		return nil, err
	}
	x := &execution{l: l, inputs: map[string]*executor.Tensor{}}
	if err := x.loadData(ex.dataDir); err != nil {
		return nil, err
	}
	if ex.differentiate || sel.asks(a) {
		if err := a.differentiate(l); err != nil {
			return nil, err
		}
	}
	if err := a.planExecution(x, name, sel, ex); err != nil {
		return nil, err
	}
	return x, nil
}

// loadData reads the inputs and binds the dims that they have.
func (x *execution) loadData(dir string) error {
	if dir == "" {
		return nil
	}
	g := x.l.Graph
	var err error
	if strings.HasSuffix(dir, ".npz") {
		x.set, err = loadNPZ(dir, g)
	} else {
		x.set, err = dataset.LoadDir(dir, g, yielded(g))
	}
	if err != nil {
		return usage("--data-dir %s: %w", dir, err)
	}
	values := make([]*executor.Tensor, len(g.Values))
	for name, t := range x.set.Inputs {
		x.inputs[name] = t
		if id, ok := g.Lookup(name); ok {
			values[id] = t
		}
	}
	if x.l.dims, err = executor.BindDims(g, values, x.l.dims); err != nil {
		return usage("--data-dir %s: %w", dir, err)
	}
	return nil
}

// yielded lists the gradients that a boundary node hands out.
func yielded(g *graph.Graph) []string {
	var names []string
	for _, n := range g.Nodes {
		if !op.Of(n.Kind).Has(op.Yield) {
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				names = append(names, g.Values[v].Name)
			}
		}
	}
	return names
}

func loadNPZ(path string, g *graph.Graph) (*dataset.Set, error) {
	arrays, err := npz.Read(path)
	if err != nil {
		return nil, err
	}
	s := &dataset.Set{Dir: path, Inputs: map[string]*executor.Tensor{}, Outputs: map[int]dataset.Named{}}
	for _, arr := range arrays {
		id, ok := g.Lookup(arr.Name)
		if !ok {
			return nil, fmt.Errorf("array %q: the model has no value of that name", arr.Name)
		}
		if out := slices.IndexFunc(g.Outputs, func(d graph.Decl) bool { return d.Value == id }); out >= 0 && !g.Values[id].Input {
			s.Outputs[out] = dataset.Named{Name: arr.Name, Tensor: arr.Tensor}
			continue
		}
		s.Inputs[arr.Name] = arr.Tensor
	}
	return s, nil
}

// planExecution makes both sides.
func (a *app) planExecution(x *execution, name string, sel *selectionFlags, ex *execFlags) error {
	c, err := sel.resolve(a, x.l)
	if err != nil {
		return err
	}
	if c.options.Budget != nil && (ex.backend != ortName || sel.forCPU()) {
		if c.options.Workspace, err = a.workspaces(x.l, planBackend(ex.backend)); err != nil {
			return classifyRun(name, err)
		}
	}
	p, err := planner.MakeContext(a.ctx, x.l.Model, x.l.types, c.options)
	if errors.Is(err, live.ErrNoBoundary) && !sel.selects(c) {
		x.baseline = verify.Side{Model: x.l.Model, Types: x.l.types, Dims: x.l.dims}
		x.planned = x.baseline
		return nil
	}
	if err != nil {
		return classify(wrap(name, err))
	}
	for _, w := range p.Warnings {
		a.warn("%s", w)
	}
	x.plan = p
	x.baseline = verify.Side{Model: x.l.Model, Types: x.l.types, Order: p.Analysis.Order, Dims: x.l.dims}
	x.planned = x.baseline
	if len(p.Placements) == 0 {
		return nil
	}
	var anchoring *planner.Anchoring
	if ex.backend == "ort" { // which orders nodes by itself, as memopt's own executor does not
		if anchoring, err = a.anchor(p); err != nil {
			return err
		}
	}
	x.anchoring = anchoring
	r, err := a.rewrite(x.l, p, anchoring)
	if err != nil {
		return err
	}
	types, err := op.Infer(r.Model)
	if err != nil {
		return &exitError{exitInternal, fmt.Errorf("%s: the rewritten graph: %w", name, err)}
	}
	x.changed = true
	x.planned = verify.Side{Model: r.Model, Types: types, Order: graph.FileOrder(r.Model.Graph), Dims: x.l.dims}
	x.seedAlike(r)
	x.origins = cloneOrigins(x.l.Graph, r)
	return nil
}

// seedAlike gives the baseline's random nodes the seeds that the rewrite fixed, so that both sides
// draw the same numbers.
func (x *execution) seedAlike(r *recompute.Rewritten) {
	if len(r.Seeded) == 0 {
		return
	}
	m := x.baseline.Model.Clone()
	for i, origin := range r.Origin {
		if slices.Contains(r.Seeded, origin) {
			m.Graph.Nodes[origin].Attrs = slices.Clone(r.Model.Graph.Nodes[i].Attrs)
		}
	}
	x.baseline.Model = m
}

// asks reports whether the flags or ORTModule's variables ask for a plan, before they are read.
func (s *selectionFlags) asks(a *app) bool {
	if s.bare {
		return false
	}
	level, _ := a.env(configs.LevelVariable)
	config, _ := a.env(configs.ConfigVariable)
	return s.level != "" || s.config != "" || s.plan != "" || s.probe != "" || s.budgetFlags.asks() || level != "" || config != ""
}

// selects reports whether the flags ask for a plan.
func (s *selectionFlags) selects(c *chosen) bool {
	return c.options.Level != planner.UserSpecified || c.options.Config != nil || c.options.Placements != nil || c.options.Budget != nil || s.probe != ""
}

// fill makes up the inputs that have no data.
func (x *execution) fill(ex *execFlags, seed int64, device executor.Device) error {
	if virtual(device) {
		return nil
	}
	g := x.l.Graph
	start, random, err := parseInit(ex.init)
	if err != nil {
		return err
	}
	if err := x.bound(); err != nil {
		return err
	}
	filler := dataset.NewFiller(g, x.l.dims, uint64(start+seed))
	for _, d := range g.Inputs {
		v := &g.Values[d.Value]
		if v.Data != nil || x.set != nil && x.set.Inputs[v.Name] != nil {
			continue
		}
		if !random {
			return usage("%s: input %q (%v) has no data: give a folder of input_N.pb with --data-dir, or make it up with --init random:1", x.l.Path, v.Name, v.Type)
		}
		t, err := filler.Fill(d.Value)
		if err != nil {
			return usage("%s: %w", x.l.Path, err)
		}
		x.inputs[v.Name] = t
	}
	return nil
}

// bound makes sure that every symbol of the inputs has a value.
func (x *execution) bound() error {
	var unbound []string
	for _, d := range x.l.Graph.Inputs {
		for _, dim := range d.Type.Shape.Dims {
			for _, s := range dim.Symbols() {
				if _, ok := x.l.dims[s]; !ok && !slices.Contains(unbound, s) {
					unbound = append(unbound, s)
				}
			}
		}
	}
	if len(unbound) == 0 {
		return nil
	}
	slices.Sort(unbound)
	return &exitError{exitUsage, fmt.Errorf("%s: %w", x.l.Path, &symbolic.UnboundError{Symbols: unbound})}
}

// parseInit reads the value of --init.
func parseInit(text string) (seed int64, random bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	number, ok := strings.CutPrefix(text, "random:")
	if ok {
		if seed, err = strconv.ParseInt(number, 10, 64); err == nil {
			return seed, true, nil
		}
	}
	return 0, false, usage("--init %q: wanted random:SEED with a whole number, for example random:1", text)
}

// save writes the outputs of a run.
func (e *execFlags) save(r *verify.Run) error {
	if e.saveOutputs == "" {
		return nil
	}
	var err error
	if strings.HasSuffix(e.saveOutputs, ".npz") {
		err = saveNPZ(e.saveOutputs, r)
	} else {
		var named []dataset.Named
		for _, o := range r.Outputs {
			named = append(named, dataset.Named{Name: o.Name, Tensor: o.Tensor})
		}
		err = dataset.WriteDir(e.saveOutputs, named)
	}
	if err != nil {
		return usage("--save-outputs %s: %w", filepath.Clean(e.saveOutputs), err)
	}
	return nil
}

// expected lists the outputs that the data set expects.
func (x *execution) expected() []verify.Output {
	if x.set == nil {
		return nil
	}
	var want []verify.Output
	for i, d := range x.l.Graph.Outputs {
		if t, ok := x.set.Outputs[i]; ok {
			want = append(want, verify.Output{Name: x.l.Graph.Values[d.Value].Name, Tensor: t.Tensor})
		}
	}
	return want
}

// classifyRun gives an error of an execution its code.
func classifyRun(name string, err error) error {
	return classify(wrap(name, err))
}
