// Package ortengine executes models in ONNX Runtime and simulates the memory that they should take
// there: it is the engine of package verify beside memopt's own executor.
//
// Each side runs in a process of its own (package ort), on the file that a rewrite writes. The
// measure of a step is its peak in the arena above the bytes in use once the session was made.
package ortengine

import (
	"context"
	"fmt"
	"path/filepath"

	"memopt/executor"
	"memopt/executor/null"
	"memopt/executor/ort"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/cleanup"
	"memopt/internal/memlimit"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// Name is the engine's name in reports.
const Name = "ort"

// peakTolerance is how far the runtime's arena may exceed the simulated peak: its optimizations
// change the graph that was simulated.
const peakTolerance = 0.15

// Engine is ONNX Runtime.
type Engine struct {
	// Program starts a process that calls ort.Serve.
	Program ort.Program
	// Options are those options of the runtime that a memopt session does not have; threads, memory
	// limit and the like are the session's.
	Options ort.Options
	// Seed determines the seeds of random nodes without a seed attribute.
	Seed int64
	// Warn is called with warnings to users, for example a *LostDropouts; it may be nil.
	Warn func(error)

	told bool // of lost Dropout nodes
}

// Name returns the name.
func (*Engine) Name() string { return Name }

// Traits describes the runtime.
func (*Engine) Traits() verify.Traits {
	return verify.Traits{Reorders: true, PeakTolerance: peakTolerance}
}

// RuntimeOptions completes the runtime's options by those of a session.
func RuntimeOptions(o ort.Options, s *executor.Options) ort.Options {
	o.Threads, o.NoPattern, o.MemLimit = s.Threads, s.OnDemand, s.MemLimit
	o.Exact = s.Strategy == executor.SameAsRequested
	return o
}

// Ready starts the process once, which looks for the runtime's library.
func (e *Engine) Ready(ctx context.Context) error {
	p, err := e.start(ctx, "")
	if err == nil {
		p.Close()
	}
	return err
}

// start starts the process, which removes the folder when it ends.
func (e *Engine) start(ctx context.Context, folder string) (*ort.Process, error) {
	program := e.Program
	program.Folder = folder
	p, err := ort.Start(ctx, program)
	if err != nil {
		return nil, failed(nil, err)
	}
	return p, nil
}

// Open starts a process with a session for a side. The errors are an *Error, one that wraps
// executor.ErrOutOfMemory, and the clash of a node with its file (op.Clash).
func (e *Engine) Open(ctx context.Context, side verify.Side, inputs map[string]*executor.Tensor,
	opts verify.Options) (_ verify.Steps, err error) {
	// The library's message would be less clear.
	if err := op.Clash(side.Model.Graph); err != nil {
		return nil, err
	}
	if err := checkCopies(side.Model.Graph); err != nil {
		return nil, err
	}
	o := RuntimeOptions(e.Options, &opts.Session)
	s := &steps{side: side, pattern: !o.NoPattern, warmup: opts.Warmup, run: &verify.Run{Threads: o.Threads}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.bound = &bound{model: recompute.Seed(side.Model, e.Seed)}
	if !opts.Independent {
		if s.bound, err = bind(s.bound.model, side.Dims); err != nil {
			return nil, err
		}
	}
	s.run.Predicted = e.predict(ctx, side, s.bound, opts.Session)
	if p := s.run.Predicted; p.Live > 0 {
		if err := memlimit.Check(p.Live+p.Persistent, "the predicted memory of ONNX Runtime, "+
			"%d bytes of values and %d of inputs and weights", p.Live, p.Persistent); err != nil {
			return nil, err
		}
	}
	if s.dir, s.folder, err = cleanup.Folder("", "memopt-ort-"); err != nil {
		return nil, exchange("cannot create a folder for the files that ONNX Runtime reads: %w", err)
	}
	// The process removes the folder if this one is killed, so it starts before any file is in it.
	if s.process, err = e.start(ctx, s.dir); err != nil {
		return nil, err
	}
	e.warnDropouts(side.Model.Graph, o.Optimization)
	files, err := s.write(inputs)
	if err != nil {
		return nil, err
	}
	if s.opened, err = s.process.Open(s.model(), o, files, s.bound.states); err != nil {
		return nil, s.failed(err)
	}
	info := s.process.Info()
	s.run.Runtime = &verify.Runtime{Version: info.Version, Library: info.Path,
		Optimization: string(o.Optimization), MemPattern: s.pattern, Arena: s.opened.Arena.Known,
		Parallel: o.Parallel, Exact: o.Split, Config: o.Config, Created: s.opened.Arena.InUse,
		States: s.bound.facts}
	return s, nil
}

// predict returns the memory that a side should take: that of a training graph in the order of ONNX
// Runtime, with its kernels. If that fails, there is no prediction: whether the model runs is up to
// ONNX Runtime.
func (e *Engine) predict(ctx context.Context, side verify.Side, b *bound,
	o executor.Options) executor.Prediction {
	out := executor.Prediction{PeakNode: graph.NoNode}
	peak := side.Simulated
	if peak == nil || b.facts != nil {
		simulated, err := ortsim.SimulateBound(b.model, side.Dims, b.outputs, side.Simulated != nil)
		if err == nil {
			peak = &simulated
		}
	}
	o.Order, o.Dims, o.MemLimit = side.Order, side.Dims, 0
	s, err := executor.Open(ctx, side.Model, side.Types, null.Device{}, o)
	if err == nil {
		defer s.Close()
		out = s.Prediction()
	} else if peak == nil && e.Warn != nil {
		e.Warn(fmt.Errorf("no peak is predicted: %w", err))
	}
	if peak != nil {
		out.Live, out.Arena, out.PeakNode = peak.Live, peak.Arena, graph.NoNode
	}
	if b.facts != nil {
		out.Persistent += b.facts.SecondBytes
	}
	return out
}

// LostDropouts says that stock ONNX Runtime removes Dropout nodes from a graph.
type LostDropouts struct {
	Nodes int
	First string // the label of one
}

func (l *LostDropouts) Error() string {
	return fmt.Sprintf("stock ONNX Runtime removes %d Dropout nodes (the first is %q), whatever "+
		"their training_mode, because their masks have no readers: its numbers are those without "+
		"them",
		l.Nodes, l.First)
}

// FindLostDropouts returns the nodes that a level of optimization removes from a graph, or nil.
func FindLostDropouts(g *graph.Graph, level ort.Level) *LostDropouts {
	lost := ortsim.LostDropouts(g)
	if len(lost) == 0 || level == ort.Disable {
		return nil
	}
	return &LostDropouts{len(lost), g.NodeLabel(lost[0])}
}

// warnDropouts warns, once, about Dropout nodes that the runtime removes.
func (e *Engine) warnDropouts(g *graph.Graph, level ort.Level) {
	if e.told || e.Warn == nil {
		return
	}
	if lost := FindLostDropouts(g, level); lost != nil {
		e.told = true
		e.Warn(lost)
	}
}

// write writes the runtime's input files: the model and its inputs. The folder is this run's own:
// its files are not outputs, and one of an earlier run may have had the same inode.
func (s *steps) write(inputs map[string]*executor.Tensor) ([]ort.File, error) {
	m := s.bound.model
	o := onnx.Options{ExternalDataThreshold: ExternalData(m.Graph)}
	if err := onnx.WriteFile(s.model(), m, o); err != nil {
		return nil, exchange("%w", err)
	}
	files, err := ort.WriteInputs(s.dir, s.bound.inputs(s.side, inputs))
	if err != nil {
		return nil, exchange("cannot write the inputs for ONNX Runtime: %w", err)
	}
	return files, nil
}

// model returns the name of the file that the runtime reads.
func (s *steps) model() string { return filepath.Join(s.dir, "model.onnx") }

// ExternalData returns the size from which on weights go to a file of their own, 0 if all stay in
// the model's: a file of ONNX cannot exceed 2 GiB.
func ExternalData(g *graph.Graph) int64 {
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

// Inputs lists the available inputs of a side, in its order.
func Inputs(side verify.Side, inputs map[string]*executor.Tensor) []ort.Named {
	var list []ort.Named
	for _, d := range side.Model.Graph.Inputs {
		name := side.Model.Graph.Values[d.Value].Name
		if t := inputs[name]; t != nil {
			list = append(list, ort.Named{Name: name, Tensor: t})
		}
	}
	return list
}
