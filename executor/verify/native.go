package verify

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/memlimit"
)

// On returns the engine that is a device of memopt's.
func On(d executor.Device) Engine { return native{d} }

type native struct{ device executor.Device }

// Name returns the device's name.
func (n native) Name() string { return n.device.Name() }

// Traits reports whether the device computes.
func (n native) Traits() Traits {
	v, ok := n.device.(executor.Virtual)
	return Traits{Device: n.device, Virtual: ok && v.Virtual()}
}

// Ready returns nil: a device is always available.
func (native) Ready(context.Context) error { return nil }

// session is a side that a device executes.
type session struct {
	*executor.Session
	graph     *graph.Graph
	run       *Run
	device    executor.Device
	shared    bool  // the arena is the caller's
	restart   bool  // every step begins with the states that were given
	done      int   // steps
	warmup    int   // steps of these that the states forget
	available int64 // of the device's memory before the session
}

// available returns how many bytes of an accelerator's memory are free, 0 of other devices.
func available(d executor.Device) int64 {
	if a, ok := d.(executor.Accelerator); ok {
		free, _ := a.Memory().Available()
		return free
	}
	return 0
}

// Open opens a session for a side and gives it its inputs.
func (n native) Open(ctx context.Context, side Side, inputs map[string]*executor.Tensor,
	o Options) (Steps, error) {
	o.Session.Order, o.Session.Dims = side.Order, side.Dims
	o.Session.Beside = outputBytes(side)
	before := available(n.device)
	s, err := executor.Open(ctx, side.Model, side.Types, n.device, o.Session)
	if err != nil {
		return nil, err
	}
	if err := feed(s, inputs); err != nil {
		s.Close()
		return nil, err
	}
	s.Fetch(losses(side)...)
	run := &Run{Predicted: s.Prediction(), Threads: s.Threads(), Feeds: s.Feeds(),
		HostNodes: s.HostNodes(), LibraryNodes: s.LibraryNodes(), WhyNoCapture: s.WhyNoCapture()}
	return &session{Session: s, graph: side.Model.Graph, run: run, device: n.device,
		shared: o.Session.Arena != nil, warmup: o.Warmup, restart: o.Independent,
		available: before}, nil
}

// lossBytes is the size up to which an output counts as a loss or the like, which a training loop
// reads in every step. Larger ones are copied from the device after the last step.
const lossBytes = 4096

// losses lists the numbers of the outputs that are copied from the device in every step.
func losses(side Side) (list []int) {
	for i, n := range outputSizes(side) {
		if n <= lossBytes {
			list = append(list, i)
		}
	}
	return list
}

// outputBytes is the size of the copies of the outputs, as far as their sizes are known.
func outputBytes(side Side) (sum int64) {
	for _, n := range outputSizes(side) {
		sum += int64(n)
	}
	return sum
}

// outputSizes goes over the numbers of the outputs whose sizes are known, and their bytes.
func outputSizes(side Side) iter.Seq2[int, int] {
	return func(yield func(i, bytes int) bool) {
		g := side.Model.Graph
		for i, d := range g.Outputs {
			t := g.Values[d.Value].Type
			shape := executor.EvalShape(t, side.Dims)
			if n, ok := executor.Bytes(t.DType, shape); ok && shape != nil && !yield(i, n) {
				return
			}
		}
	}
}

// Run is the results and the memory of the steps.
func (s *session) Run() *Run { return s.run }

// Shares reports whether the session has an arena of its own.
func (s *session) Shares() bool { return !s.shared }

// Fits reports whether there is memory for the planned arena. A tenth stays for the rest of the
// machine.
func (s *session) Fits() bool {
	limit, ok := memlimit.Available()
	free := limit.Bytes
	if a, isOne := s.device.(executor.Accelerator); isOne {
		free, ok = a.Memory().Available()
	}
	return !ok || s.run.Predicted.Arena <= free/10*9
}

// Step runs one step. The growth of resident memory is measured at the first one, before another
// session exists.
func (s *session) Step(ctx context.Context) (time.Duration, error) {
	first := s.done == 0
	if first {
		before := executor.SettleProcessMemory()
		defer func() {
			if after := executor.ReadProcessMemory(); after.Peak > 0 {
				s.run.Resident = max(after.Peak-before.Resident, 0)
			}
		}()
	}
	if !first && (s.restart || s.done == s.warmup) {
		if err := s.Restart(); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	if err := s.Session.Run(ctx); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	if first {
		s.run.DeviceGrowth = s.available - available(s.device)
	}
	s.done++
	return took, nil
}

// remarker is a device that has remarks about how it runs graphs.
type remarker interface{ Remarks() []string }

// Finish notes the memory of all steps and copies the outputs of the last one.
func (s *session) Finish(context.Context) error {
	s.run.Measured, s.run.Arena, s.run.Weights = s.Measured(), s.ArenaStats(), s.WeightStats()
	if d, ok := s.device.(remarker); ok {
		s.run.Remarks = d.Remarks()
	}
	for i, d := range s.graph.Outputs {
		t := s.Output(i)
		name := s.graph.ValueName(d.Value)
		if err := memlimit.Check(int64(len(t.Data)), "a copy of output %q (%v)", name, t); err != nil {
			return err
		}
		s.run.Outputs = append(s.run.Outputs, Output{s.graph.Values[d.Value].Name,
			&executor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Data: bytes.Clone(t.Data)}})
	}
	return nil
}

// feed gives a session its inputs; those that only the other model has are left out.
func feed(s *executor.Session, inputs map[string]*executor.Tensor) error {
	g := s.Model().Graph
	for _, d := range g.Inputs {
		name := g.Values[d.Value].Name
		if t := inputs[name]; t != nil {
			if err := s.SetInput(name, t); err != nil {
				return err
			}
		}
	}
	for _, f := range s.Feeds() {
		name := g.Values[f.Value].Name
		if t := inputs[name]; t != nil {
			if err := s.SetInput(name, t); err != nil {
				return err
			}
		}
	}
	return nil
}
