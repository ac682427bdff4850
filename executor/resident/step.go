package resident

import (
	"context"
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// step is a Step on a device of memopt's.
type step struct {
	machine *machine
	session *executor.Session
	graph   *graph.Graph
	names   []string        // of inputs
	inputs  []graph.ValueID // by place
	feeds   int             // the last inputs are gradients that a boundary node hands out
	fetch   []int           // numbers of the graph outputs that Output returns
	watch   []watched       // the values to check when the step is done
}

// watched is a graph output that must be finite.
type watched struct {
	output      int
	value, node string
}

// prepare finds the inputs and outputs that Run and Output deal with.
func (s *step) prepare(o StepOptions) error {
	states, err := live.FindStates(s.session.Model())
	if err != nil {
		return err
	}
	for _, st := range states {
		if !s.session.Stored(st.In) {
			return fmt.Errorf("state %q: the machine has no such state: put its first value there "+
				"before the step is opened", s.graph.ValueName(st.In))
		}
	}
	for _, d := range s.graph.Inputs {
		if !s.session.Stored(d.Value) && !s.graph.Values[d.Value].IsInitializer() {
			s.inputs = append(s.inputs, d.Value)
		}
	}
	for _, f := range s.session.Feeds() {
		s.inputs = append(s.inputs, f.Value)
		s.feeds++
	}
	for _, v := range s.inputs {
		s.names = append(s.names, s.graph.ValueName(v))
	}
	for _, name := range o.Fetch {
		i, err := outputOf(s.graph, name)
		if err != nil {
			return err
		}
		s.fetch = append(s.fetch, i)
	}
	return s.prepareWatch()
}

// prepareWatch finds the outputs that are looked at when the step is done, and has them fetched.
// The CPU looks at the values when they are made.
func (s *step) prepareWatch() error {
	fetched := s.fetch
	if _, ok := s.machine.device.(executor.Accelerator); ok {
		list, err := op.Watched(s.session.Model())
		if err != nil {
			return err
		}
		for _, v := range list {
			def := s.graph.Values[v].Def
			w := watched{value: s.graph.ValueName(v), node: s.graph.NodeLabel(def)}
			if w.output, err = outputOf(s.graph, w.value); err != nil {
				return fmt.Errorf("%w; on device %s only outputs can be watched", err,
					s.machine.device.Name())
			}
			s.watch = append(s.watch, w)
			if !slices.Contains(fetched, w.output) {
				fetched = append(slices.Clone(fetched), w.output)
			}
		}
	}
	s.session.Fetch(fetched...)
	return nil
}

// outputOf returns the number of a graph output.
func outputOf(g *graph.Graph, name string) (int, error) {
	i := slices.IndexFunc(g.Outputs, func(d graph.Decl) bool {
		return g.ValueName(d.Value) == name
	})
	if i < 0 {
		return 0, fmt.Errorf("output %q: the graph has no such output", name)
	}
	return i, nil
}

func (s *step) Inputs() []string { return s.names }

// Run takes the arena over from the step that ran before.
func (s *step) Run(ctx context.Context, number uint64, inputs []*executor.Tensor) error {
	if err := s.give(number, inputs); err != nil {
		return err
	}
	if err := s.session.Run(ctx); err != nil {
		return err
	}
	for i := range s.watch {
		w := &s.watch[i]
		if at, x := executor.NotFinite(s.session.Output(w.output)); at >= 0 {
			return &NotFiniteError{Value: w.value, Node: w.node, Index: at, Elem: x}
		}
	}
	return nil
}

// give takes the arena and gives the session its inputs and the step's number.
func (s *step) give(number uint64, inputs []*executor.Tensor) error {
	if len(inputs) != len(s.inputs) {
		return fmt.Errorf("%d inputs are given; the step has %d: %q", len(inputs), len(s.inputs),
			s.names)
	}
	for i, t := range inputs {
		if t == nil && i < len(inputs)-s.feeds {
			return fmt.Errorf("input %q is not given", s.names[i])
		}
		if t == nil {
			continue
		}
		if err := s.session.SetValue(s.inputs[i], t); err != nil {
			return err
		}
	}
	s.machine.release(s)
	s.session.SetStep(number)
	return nil
}

func (s *step) Output(i int) *executor.Tensor { return s.session.Output(s.fetch[i]) }

func (s *step) Predicted() executor.Prediction { return s.session.Prediction() }

func (s *step) Measured() executor.Measured { return s.session.Measured() }

// Close closes the session.
func (s *step) Close() error {
	m := s.machine
	at := slices.Index(m.steps, s)
	if at < 0 {
		return nil // it is closed
	}
	m.steps = slices.Delete(m.steps, at, at+1)
	if m.holder == s {
		m.holder = nil
	}
	return s.session.Close()
}
