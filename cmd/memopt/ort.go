package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt/executor"
	"memopt/executor/null"
	"memopt/executor/ort"
	"memopt/graph"
)

// ortName is the value of -e that means ONNX Runtime.
const ortName = "ort"

// ortTolerance is how far ONNX Runtime's arena may exceed the simulated peak where --peak-tolerance
// does not say: its optimizations change the graph that was simulated.
const ortTolerance = 0.15

// ortDevice stands for ONNX Runtime where a device is asked for: it has no kernels of memopt's, so
// that what is to be known of memory before a run is counted as the null device does.
type ortDevice struct{ null.Device }

// Name returns the backend's name.
func (ortDevice) Name() string { return ortName }

// Virtual says that something is computed.
func (ortDevice) Virtual() bool { return false }

// planBackend returns the backend whose workspaces a plan to a budget counts. Those of ONNX Runtime
// are not known: as for apply, the CPU's stand for them.
func planBackend(name string) string {
	if name == ortName {
		return cpuDevice
	}
	return name
}

// isORT reports whether ONNX Runtime executes.
func isORT(d executor.Device) bool { _, ok := d.(ortDevice); return ok }

// ortFlags are the settings of ONNX Runtime that other backends do not have.
type ortFlags struct {
	level     string
	arena     string
	execution string
	interOp   int
	config    []string
}

func (o *ortFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.level, "ort-opt", string(ort.All), "with -e ort: graph optimizations: disable, basic, extended or all")
	f.StringVar(&o.arena, "ort-arena", "on", "with -e ort: on; exact: chunks are split to fit, so that its count is of live bytes; or off: values come from malloc, of which there is no count")
	f.StringVar(&o.execution, "ort-execution", "sequential", "with -e ort: sequential, or parallel: operators run side by side")
	numberVar(f, &o.interOp, "ort-inter-op", "", 0, bounds{least: 0, most: float64(maxThreads())}, "with -e ort: threads of parallel execution; 0: one per core")
	f.StringArrayVar(&o.config, "ort-config", nil, "with -e ort: a session configuration entry KEY=VALUE (repeatable)")
}

// ortOptions checks the flags of ONNX Runtime and makes the runtime's options of all flags.
func (e *execFlags) ortOptions(s *executor.Options) (ort.Options, error) {
	f := &e.ort
	o := ort.Options{Threads: s.Threads, InterOp: f.interOp, NoPattern: s.OnDemand, MemLimit: s.MemLimit, Config: f.config,
		Exact: s.Strategy == executor.SameAsRequested, Parallel: f.execution == "parallel", NoArena: f.arena == "off", Split: f.arena == "exact"}
	var err error
	if o.Optimization, err = ort.ParseLevel(f.level); err != nil {
		return o, usage("--ort-opt %w", err)
	}
	if f.arena != "on" && f.arena != "exact" && f.arena != "off" {
		return o, usage("--ort-arena %q: wanted on, exact or off", f.arena)
	}
	if f.execution != "sequential" && f.execution != "parallel" {
		return o, usage("--ort-execution %q: wanted sequential or parallel", f.execution)
	}
	if err := o.Check(); err != nil {
		return o, usage("--backend ort: %w", err)
	}
	return o, nil
}

// checkORT makes sure, before any work is done, that ONNX Runtime is there.
func (a *app) checkORT() error {
	p, err := a.startORT("")
	if err == nil {
		p.Close()
	}
	return err
}

// startORT starts this program a second time, as the process in which ONNX Runtime runs and which
// removes a folder when it ends.
func (a *app) startORT(folder string) (*ort.Process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, &exitError{exitInternal, err}
	}
	program := ortProgram(path)
	program.Folder = folder
	p, err := ort.Start(a.ctx, program)
	return p, classifyORT(nil, err)
}

// ortChildVerb is the verb of the second process. People have no use for it; the environment marks
// that memopt has started it, with the pipes that it needs.
const (
	ortChildVerb = "ort-child"
	ortChildMark = "MEMOPT_STARTED_ORT_CHILD"
)

func ortProgram(path string) ort.Program {
	return ort.Program{Path: path, Args: []string{"memopt", ortChildVerb}, Env: []string{ortChildMark + "=1"}}
}

func (a *app) ortChildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    ortChildVerb,
		Short:  "Run models in ONNX Runtime for the process that started this one",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, ok := a.env(ortChildMark); !ok {
				return usage("memopt %s is started by memopt itself, for -e ort", ortChildVerb)
			}
			if code := ort.Serve(os.Stdin, os.NewFile(3, "answers")); code != 0 {
				return &exitError{code, errors.New("ONNX Runtime's process failed")}
			}
			return nil
		},
	}
}

// classifyORT gives an error of ONNX Runtime its exit code, and names the node of a graph that its
// message is about.
func classifyORT(g *graph.Graph, err error) error {
	var missing *ort.MissingError
	var crash *ort.CrashError
	var failed *ort.RuntimeError
	switch {
	case errors.As(err, &crash) && crash.Killed():
		return &exitError{exitUnfit, err}
	case errors.As(err, &missing), errors.As(err, &crash):
		return &exitError{exitMissing, err}
	case errors.As(err, &failed) && failed.OutOfMemory():
		return &exitError{exitUnfit, err}
	case errors.As(err, &failed):
		if label := blamed(g, failed.Message); label != "" {
			err = fmt.Errorf("%w (node %q)", err, label)
		}
		return &exitError{exitInvalid, err}
	}
	return err
}

// blamed returns the label of the node that a message of the runtime is about, or "": the first one
// whose name it quotes or whose operator it names.
func blamed(g *graph.Graph, message string) string {
	if g == nil {
		return ""
	}
	for id, n := range g.Nodes {
		if n.Name != "" && (strings.Contains(message, "'"+n.Name+"'") || strings.Contains(message, "("+n.Name+")")) {
			return g.NodeLabel(graph.NodeID(id))
		}
	}
	for id, n := range g.Nodes {
		if namesOperator(message, n.Op) {
			return g.NodeLabel(graph.NodeID(id))
		}
	}
	return ""
}

// namesOperator looks for an operator as the runtime's messages write it: with its version in
// brackets behind it, "Elu(6)", or "Elu node".
func namesOperator(message, name string) bool {
	for rest := message; ; {
		at := strings.Index(rest, name)
		if at < 0 {
			return false
		}
		before, after := strings.TrimRightFunc(rest[:at], isWordPart), rest[at+len(name):]
		if len(before) == at && (strings.HasPrefix(after, "(") || strings.HasPrefix(after, " node")) {
			return true
		}
		rest = after
	}
}

func isWordPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
