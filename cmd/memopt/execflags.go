package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
)

// execFlags are the flags of the verbs that execute.
type execFlags struct {
	engineFlags
	dataDir     string
	saveOutputs string
	init        string
	repeat      int
	warmup      int
	independent bool
	atol, rtol  float64
	above       float64 // by how much the arena may exceed the prediction, a share of it
	// differentiate says that forward models become training graphs first, selection or not.
	differentiate bool
}

func (e *execFlags) register(f *pflag.FlagSet) {
	e.engineFlags.register(f)
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
	o.Repeat, o.Warmup, o.Independent = e.repeat, e.warmupSteps(o.Engine.Traits()), e.independent
	if err := e.session(a, o.Engine, &o.Session); err != nil {
		return o, err
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

func (e *execFlags) tolerance() verify.Tolerance {
	return verify.Tolerance{Abs: e.atol, Rel: e.rtol}
}
