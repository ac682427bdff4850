package option

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
)

// ExecFlags are the flags of the verbs that execute.
type ExecFlags struct {
	EngineFlags
	DataDir     string
	saveOutputs string
	Init        string
	repeat      int
	warmup      int
	independent bool
	atol, rtol  float64
	link        string
	above       float64 // by how much the arena may exceed the prediction, a share of it
	// differentiate says that forward models become training graphs first, selection or not.
	Differentiate bool
}

func (e *ExecFlags) Register(f *pflag.FlagSet) {
	e.EngineFlags.Register(f)
	f.StringVar(&e.DataDir, "data-dir", "",
		"inputs: a folder with input_N.pb in the order of the graph's inputs (and output_N.pb to "+
			"compare with), or with inputs.npz (and outputs.npz); or an .npz file")
	f.StringVar(&e.saveOutputs, "save-outputs", "", "write the outputs: to a folder as NAME.pb, or to an .npz file")
	f.StringVar(&e.Init, "init", "", "random:SEED generates inputs and weights that have no data")
	cli.NumberVar(f, &e.repeat, "repeat", "r", 1, cli.Positive, "measured steps")
	cli.NumberVar(f, &e.warmup, "warmup", "",
		1, cli.NotNegative,
		"unmeasured steps before the measured ones; by default 2 with --cuda-graph, which captures the second, and "+
			"0 with -e null")
	f.BoolVar(&e.independent, "independent-steps", false,
		"let every step begin with the given states, such as weights and moments, in place of those that the "+
			"step before left")
	f.StringVar(&e.link, "link", "0", "bytes per second each way of the link that Offload and Reload copy over, such "+
		"as 25GB/s, or 25GB/s,10us with a latency; 0: as fast as memory")
	cli.NumberVar(f, &e.atol, "atol", "", verify.DefaultTolerance.Abs, cli.NotNegative,
		"absolute tolerance of comparisons that are not bitwise")
	cli.NumberVar(f, &e.rtol, "rtol", "", verify.DefaultTolerance.Rel, cli.NotNegative,
		"relative tolerance of comparisons that are not bitwise")
	cli.NumberVar(f, &e.above, "peak-tolerance", "",
		0, cli.NotNegative,
		fmt.Sprintf("by how much the measured arena may exceed the planned one, as a share of it; "+
			"%g by default with -e ort", new(ortengine.Engine).Traits().PeakTolerance))
}

// PeakTolerance is by how much a measured arena may exceed the planned one, as a share of it.
func (e *ExecFlags) PeakTolerance(engine verify.Engine) float64 {
	if !e.set.Changed("peak-tolerance") {
		return engine.Traits().PeakTolerance
	}
	return e.above
}

// Options makes the executor's options of the flags.
func (e *ExecFlags) Options(a *cli.App) (verify.Options, error) {
	var o verify.Options
	var err error
	if o.Engine, err = e.Engine(a); err != nil {
		return o, err
	}
	o.Repeat, o.Warmup, o.Independent = e.repeat, e.warmupSteps(o.Engine.Traits()), e.independent
	if err := e.Session(a, o.Engine, &o.Session); err != nil {
		return o, err
	}
	link, err := cli.ParseLink(cmp.Or(e.link, "0"))
	if err != nil {
		return o, cli.Usage("--link %q: %w", e.link, err)
	}
	o.Session.Link = executor.Link(link)
	o.Progress = a.Progress("steps")
	return o, nil
}

// warmupSteps is how many steps are run before the measured ones. The first step pays for work that
// later ones do not repeat: touching pages for the first time, loading libraries, compiling
// kernels; with --cuda-graph, the second pays for the capture.
func (e *ExecFlags) warmupSteps(t verify.Traits) int {
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

func (e *ExecFlags) Tolerance() verify.Tolerance {
	return verify.Tolerance{Abs: e.atol, Rel: e.rtol}
}
