package option

import (
	"strings"

	"github.com/spf13/pflag"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/executor/cuda"
	"memopt/executor/verify"
	"memopt/view/report"
)

// EngineFlags are the flags of the executing engine and its memory.
type EngineFlags struct {
	Backend    string
	memLimit   string
	memPattern string
	strategy   string
	cudaGraph  bool
	blocking   bool
	tf32       bool
	convSearch string
	convRoom   string
	ort        ortFlags
	set        *pflag.FlagSet // the set that they are registered in
}

func (e *EngineFlags) Register(f *pflag.FlagSet) {
	e.set = f
	f.StringVarP(&e.Backend, "backend", "e", "cpu",
		"the device that executes the model: cpu; cuda, or cuda:N for GPU number N; ort, ONNX Runtime's "+
			"library; or null, which only counts memory")
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
}

// Session checks the flags for an engine, which must be available, and makes a session's options of
// them.
func (e *EngineFlags) Session(a *cli.App, engine verify.Engine, s *executor.Options) (err error) {
	s.Threads, s.Seed = a.Global.Threads, uint64(a.Global.Seed)
	s.Capture, s.Blocking = e.cudaGraph, e.blocking
	device := engine.Traits().Device
	if err := e.gpuOptions(device); err != nil {
		return err
	}
	e.warnIdle(a, device)
	switch e.memPattern {
	case "on", "off":
		s.OnDemand = e.memPattern == "off"
	default:
		return cli.Usage("--mem-pattern %q: wanted on or off", e.memPattern)
	}
	if s.Strategy, err = executor.ParseExtendStrategy(e.strategy); err != nil {
		return cli.Usage("--arena-extend-strategy: %w", err)
	}
	if e.memLimit != "" {
		if s.MemLimit, err = report.ParseBytes(e.memLimit); err != nil || s.MemLimit <= 0 {
			return cli.Usage("--mem-limit %q: wanted a positive size such as 2GiB", e.memLimit)
		}
		warnBare(a, "--mem-limit", e.memLimit, s.MemLimit)
	}
	if err := e.ort.options(engine, s); err != nil {
		return err
	}
	return cli.Classify(engine.Ready(a.Ctx))
}

// gpuOptions checks the flags of GPUs, and passes them to the device if it is one.
func (e *EngineFlags) gpuOptions(device executor.Device) error {
	search, err := cuda.ParseConvSearch(e.convSearch)
	if err != nil {
		return cli.Usage("--cudnn-conv-algo-search %w", err)
	}
	if e.convRoom != "on" && e.convRoom != "off" {
		return cli.Usage("--cudnn-conv-use-max-workspace %q: wanted on or off", e.convRoom)
	}
	if d, ok := device.(*cuda.Device); ok {
		d.AllowTF32(e.tf32)
		d.ChooseConvolutions(search, e.convRoom == "off")
	}
	return nil
}

// warnIdle warns about given flags that are for another backend than the device's.
func (e *EngineFlags) warnIdle(a *cli.App, device executor.Device) {
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
		a.Warn("%s: only for -e cuda, no effect with -e %s", strings.Join(gpu, ", "), e.Backend)
	}
	if len(runtime) > 0 && device != nil {
		a.Warn("%s: only for -e ort, no effect with -e %s", strings.Join(runtime, ", "), e.Backend)
	}
}
