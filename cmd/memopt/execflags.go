package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"memopt/executor"
	"memopt/executor/cuda"
	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
	"memopt/report"
)

// execFlags are the flags of the verbs that execute.
type execFlags struct {
	backend     string
	dataDir     string
	saveOutputs string
	init        string
	repeat      int
	warmup      int
	independent bool
	memLimit    string
	memPattern  string
	strategy    string
	cudaGraph   bool
	blocking    bool
	tf32        bool
	convSearch  string
	convRoom    string
	atol, rtol  float64
	above       float64 // by how much the arena may exceed the prediction, a share of it
	ort         ortFlags
	set         *pflag.FlagSet // what they are registered in
	// differentiate says that forward models become training graphs first, selection or not.
	differentiate bool
}

func (e *execFlags) register(f *pflag.FlagSet) {
	e.set = f
	f.StringVarP(&e.backend, "backend", "e", "cpu",
		"what executes the model: cpu; cuda, or cuda:N for GPU number N; ort, ONNX Runtime's "+
			"library; or null, which computes nothing and only counts memory")
	f.StringVar(&e.dataDir, "data-dir", "",
		"inputs: a folder with input_N.pb in the order of the graph's inputs (and output_N.pb to "+
			"compare with), or with inputs.npz (and outputs.npz); or an .npz file")
	f.StringVar(&e.saveOutputs, "save-outputs", "", "write the outputs: to a folder as NAME.pb, or to an .npz file")
	f.StringVar(&e.init, "init", "", "random:SEED generates inputs and weights that have no data")
	numberVar(f, &e.repeat, "repeat", "r", 1, positive, "measured steps")
	numberVar(f, &e.warmup, "warmup", "",
		1, notNegative,
		"unmeasured steps before the measured ones; by default 2 with --cuda-graph, which "+
			"captures the second, and none with -e null")
	f.BoolVar(&e.independent, "independent-steps", false,
		"let every step begin with the given states, such as weights and moments, in place of those that the "+
			"step before left")
	f.StringVar(&e.memLimit, "mem-limit", "", "the most that the arena may take, for example 2GiB")
	f.StringVar(&e.memPattern, "mem-pattern", "on",
		"on: plan all offsets before the run; off: allocate memory when a value is made")
	f.StringVar(&e.strategy, "arena-extend-strategy", executor.NextPowerOfTwo.String(),
		"how the arena grows on demand: kNextPowerOfTwo or kSameAsRequested")
	e.ort.register(f)
	f.BoolVar(&e.cudaGraph, "cuda-graph",
		false, "capture a step as a CUDA graph and replay it, if the host takes no part in the "+
			"step")
	f.BoolVar(&e.tf32, "tf32", false, "let a GPU round the operands of float32 products to 10 bits (TF32)")
	f.StringVar(&e.convSearch, "cudnn-conv-algo-search", "heuristic",
		"how the GPU's algorithm for a convolution is chosen, as with ONNX Runtime's "+
			"cudnn_conv_algo_search: heuristic; exhaustive, which times all of them and may "+
			"choose differently the next time; or default")
	f.StringVar(&e.convRoom, "cudnn-conv-use-max-workspace", "on",
		"off: skip algorithms for convolutions that need more than 32 MiB, as with ONNX Runtime's "+
			"cudnn_conv_use_max_workspace=0")
	f.BoolVar(&e.blocking, "blocking",
		false, "wait for the GPU after every node, so that a fault is reported with the node that caused it")
	numberVar(f, &e.atol, "atol", "", verify.DefaultTolerance.Abs, notNegative,
		"absolute tolerance of comparisons that are not bitwise")
	numberVar(f, &e.rtol, "rtol", "", verify.DefaultTolerance.Rel, notNegative,
		"relative tolerance of comparisons that are not bitwise")
	numberVar(f, &e.above, "peak-tolerance", "",
		0, notNegative,
		fmt.Sprintf("by how much the measured arena may exceed the planned one, as a share of it; "+
			"%g by default with -e ort", new(ortengine.Engine).Traits().PeakTolerance))
}

// peakTolerance is by how much a measured arena may exceed the planned one, as a share of it.
func (e *execFlags) peakTolerance(engine verify.Engine) float64 {
	if !e.set.Changed("peak-tolerance") {
		return engine.Traits().PeakTolerance
	}
	return e.above
}

// options makes the executor's options of the flags.
func (e *execFlags) options(a *app) (verify.Options, error) {
	var o verify.Options
	var err error
	if o.Engine, err = e.engine(a); err != nil {
		return o, err
	}
	traits := o.Engine.Traits()
	o.Repeat, o.Warmup, o.Independent = e.repeat, e.warmupSteps(traits), e.independent
	s := &o.Session
	s.Threads, s.Seed = a.global.threads, uint64(a.global.seed)
	s.Capture, s.Blocking = e.cudaGraph, e.blocking
	if err := e.gpuOptions(traits.Device); err != nil {
		return o, err
	}
	e.warnIdle(a, traits.Device)
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
		a.warnBare("--mem-limit", e.memLimit, s.MemLimit)
	}
	if err := e.ort.options(o.Engine, s); err != nil {
		return o, err
	}
	if err := o.Engine.Ready(a.ctx); err != nil {
		return o, classify(err)
	}
	o.Progress = a.progress("steps")
	return o, nil
}

// warmupSteps is how many steps are run before the measured ones. The first step pays for work that
// later ones do not repeat: touching pages for the first time, loading libraries, compiling
// kernels; with --cuda-graph, the second pays for the capture.
func (e *execFlags) warmupSteps(t verify.Traits) int {
	switch {
	case e.set.Changed("warmup"):
		return e.warmup
	case t.Virtual:
		return 0
	case e.cudaGraph:
		return 2
	}
	return e.warmup
}

// gpuOptions checks the flags of GPUs, and passes them to the device if it is one.
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

// warnIdle warns about given flags that are for another backend than the device's.
func (e *execFlags) warnIdle(a *app, device executor.Device) {
	_, isGPU := device.(*cuda.Device)
	var gpu, runtime []string
	e.set.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "blocking", "cuda-graph", "cudnn-conv-algo-search", "cudnn-conv-use-max-workspace", "tf32":
			gpu = append(gpu, "--"+f.Name)
		case "ort-arena", "ort-config", "ort-execution", "ort-inter-op", "ort-opt":
			runtime = append(runtime, "--"+f.Name)
		}
	})
	if len(gpu) > 0 && !isGPU {
		a.warn("%s: only for -e cuda, no effect with -e %s", strings.Join(gpu, ", "), e.backend)
	}
	if len(runtime) > 0 && device != nil {
		a.warn("%s: only for -e ort, no effect with -e %s", strings.Join(runtime, ", "), e.backend)
	}
}

func (e *execFlags) tolerance() verify.Tolerance {
	return verify.Tolerance{Abs: e.atol, Rel: e.rtol}
}
