package option

import (
	"errors"
	"os"

	"github.com/spf13/pflag"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
)

// ortFlags are the settings of ONNX Runtime that other backends do not have.
type ortFlags struct {
	level     string
	arena     string
	execution string
	interOp   int
	config    []string
}

func (o *ortFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.level, "ort-opt",
		string(ort.All), "with -e ort: graph optimizations: disable, basic, extended or all")
	f.StringVar(&o.arena, "ort-arena", "on",
		"with -e ort: on; exact, which splits chunks to fit, so that the arena counts live bytes; "+
			"or off, which takes values from malloc, without a count")
	f.StringVar(&o.execution, "ort-execution", "sequential",
		"with -e ort: sequential, or parallel, which runs operators side by side")
	cli.NumberVar(f, &o.interOp, "ort-inter-op", "", 0, cli.Bounds{Least: 0, Most: float64(cli.MaxThreads())},
		"with -e ort: threads of parallel execution; 0: one per core")
	f.StringArrayVar(&o.config, "ort-config", nil, "with -e ort: a session configuration entry KEY=VALUE (repeatable)")
}

// OrtEngine is ONNX Runtime, in a second process of this program.
func OrtEngine(a *cli.App) (verify.Engine, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, &cli.ExitError{Code: cli.ExitInternal, Err: err}
	}
	return &ortengine.Engine{Program: cli.OrtProgram(path), Seed: a.Global.Seed,
		Warn: func(what error) { warnORT(a, what) }}, nil
}

// options checks the flags of ONNX Runtime, and passes them to the engine if that is ONNX Runtime.
func (f *ortFlags) options(engine verify.Engine, s *executor.Options) error {
	o := ort.Options{
		InterOp: f.interOp, Config: f.config, Parallel: f.execution == "parallel", NoArena: f.arena == "off",
		Split: f.arena == "exact",
	}
	var err error
	if o.Optimization, err = ort.ParseLevel(f.level); err != nil {
		return cli.Usage("--ort-opt %w", err)
	}
	if f.arena != "on" && f.arena != "exact" && f.arena != "off" {
		return cli.Usage("--ort-arena %q: wanted on, exact or off", f.arena)
	}
	if f.execution != "sequential" && f.execution != "parallel" {
		return cli.Usage("--ort-execution %q: wanted sequential or parallel", f.execution)
	}
	with := ortengine.RuntimeOptions(o, s)
	if err := with.Check(); err != nil {
		return cli.Usage("--backend ort: %w", err)
	}
	if runtime, ok := engine.(*ortengine.Engine); ok {
		runtime.Options = o
	}
	return nil
}

// warnORT prints warnings of ONNX Runtime's engine.
func warnORT(a *cli.App, what error) {
	var lost *ortengine.LostDropouts
	if errors.As(what, &lost) {
		WarnDropouts(a, lost)
		return
	}
	a.Warn("%v", what)
}

// WarnDropouts warns that stock ONNX Runtime removes Dropout nodes from a graph.
func WarnDropouts(a *cli.App, lost *ortengine.LostDropouts) {
	a.Warn("%v; --ort-opt disable keeps them", lost)
}
