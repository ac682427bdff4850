package main

import (
	"errors"
	"os"

	"github.com/spf13/pflag"

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
			"or off, which takes values from malloc, where nothing is counted")
	f.StringVar(&o.execution, "ort-execution", "sequential",
		"with -e ort: sequential, or parallel, which runs operators side by side")
	numberVar(f, &o.interOp, "ort-inter-op", "", 0, bounds{least: 0, most: float64(maxThreads())},
		"with -e ort: threads of parallel execution; 0: one per core")
	f.StringArrayVar(&o.config, "ort-config", nil, "with -e ort: a session configuration entry KEY=VALUE (repeatable)")
}

// ortEngine is ONNX Runtime, in a second process of this program.
func (a *app) ortEngine() (verify.Engine, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, &exitError{exitInternal, err}
	}
	return &ortengine.Engine{Program: ortProgram(path), Seed: a.global.seed, Warn: func(what error) { a.warnORT(what) }}, nil
}

// options checks the flags of ONNX Runtime, and passes them to the engine if that is ONNX Runtime.
func (f *ortFlags) options(engine verify.Engine, s *executor.Options) error {
	o := ort.Options{
		InterOp: f.interOp, Config: f.config, Parallel: f.execution == "parallel", NoArena: f.arena == "off",
		Split: f.arena == "exact",
	}
	var err error
	if o.Optimization, err = ort.ParseLevel(f.level); err != nil {
		return usage("--ort-opt %w", err)
	}
	if f.arena != "on" && f.arena != "exact" && f.arena != "off" {
		return usage("--ort-arena %q: wanted on, exact or off", f.arena)
	}
	if f.execution != "sequential" && f.execution != "parallel" {
		return usage("--ort-execution %q: wanted sequential or parallel", f.execution)
	}
	with := ortengine.RuntimeOptions(o, s)
	if err := with.Check(); err != nil {
		return usage("--backend ort: %w", err)
	}
	if runtime, ok := engine.(*ortengine.Engine); ok {
		runtime.Options = o
	}
	return nil
}

// warnORT prints warnings of ONNX Runtime's engine.
func (a *app) warnORT(what error) {
	var lost *ortengine.LostDropouts
	if errors.As(what, &lost) {
		a.warnDropouts(lost)
		return
	}
	a.warn("%v", what)
}

// warnDropouts warns that stock ONNX Runtime removes Dropout nodes from a graph.
func (a *app) warnDropouts(lost *ortengine.LostDropouts) {
	a.warn("%v; --ort-opt disable keeps them", lost)
}
