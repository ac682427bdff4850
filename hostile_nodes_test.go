package memopt_test

import (
	"context"
	"hash/fnv"
	"runtime/debug"
	"strings"
	"testing"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/null"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/rapidflags"
	ortsim "memopt/sim/ort"
)

// everyNth returns n where the tests take one in n of the bent nodes. MEMOPT_TESTS=all takes all of
// them, after a change to the check of nodes, a rule or a kernel.
func everyNth() uint64 {
	if rapidflags.All() {
		return 1
	}
	return 60
}

// TestHostileNodes bends a node of every operator that has a kernel in every way that a file can:
// operands that are left out, too many, or of other types and shapes, attributes of other kinds and
// values, and stated types that contradict the operator. Reading, planning, differentiating and
// running give errors or results; none panics.
func TestHostileNodes(t *testing.T) {
	nth, each := everyNth(), 1
	if nth == 1 {
		each = 3
	}
	h := hostile{t: t, found: map[string]int{}}
	for _, s := range specimens(each) {
		s.mutants(func(bent *specimen) {
			if hashOf(bent.label)%nth != 0 && bent.label != s.label {
				return
			}
			h.try(bent)
		})
	}
	t.Logf("%d nodes", h.nodes)
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// hostile collects panics, one for each place in the code.
type hostile struct {
	t     *testing.T
	nodes int
	found map[string]int
}

// try runs everything on a bent node, as the node of a forward graph and as that of a training
// graph.
func (h *hostile) try(s *specimen) {
	h.nodes++
	h.guard("build", s.label, func() error {
		forward, err := s.model(false)
		if err != nil {
			return nil // no file could hold it either
		}
		h.all(s.label, forward)
		training, err := s.model(true)
		if err == nil {
			h.all(s.label+" (training)", training)
		}
		return nil
	})
}

// all runs every stage on copies of a model.
func (h *hostile) all(label string, m *graph.Model) {
	for _, st := range []struct {
		name string
		run  func(m *graph.Model) error
	}{{"infer", inferStrictly}, {"plan", planHostile}, {"grad", gradHostile}, {"cpu", onDevice(cpu.Device{})},
		{"null", onDevice(null.Device{})}} {
		h.guard(st.name, label, func() error { return st.run(m.Clone()) })
	}
}

// guard turns a panic into a finding.
func (h *hostile) guard(stage, label string, run func() error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		where := placeOf(string(debug.Stack()))
		if h.found[where]++; h.found[where] == 1 {
			h.t.Errorf("%s: %s: %v\n\t%s", label, stage, r, where)
		}
	}()
	run()
}

// placeOf is the innermost line of the project in a stack, and what called it.
func placeOf(stack string) string {
	_, stack, _ = strings.Cut(stack, "panic(")
	var lines []string
	for line := range strings.Lines(stack) {
		if line = strings.TrimSpace(line); strings.Contains(line, ".go:") && !strings.Contains(line, "/usr/") &&
			!strings.Contains(line, "/go/src/") {
			file, _, _ := strings.Cut(line, " +")
			lines = append(lines, file[strings.LastIndexByte(file[:strings.LastIndexByte(file, '/')], '/')+1:])
		}
	}
	return strings.Join(lines[:min(3, len(lines))], " < ")
}

func prepared(m *graph.Model) (*op.Result, error) {
	if _, err := op.FoldConditions(m); err != nil {
		return nil, err
	}
	return op.InferAsIs(m)
}

func inferStrictly(m *graph.Model) error {
	types, err := op.Infer(m)
	if err == nil {
		op.FLOPs(m.Graph, m.Opsets, types)
	}
	return err
}

// planHostile plans, anchors and rewrites.
func planHostile(m *graph.Model) error {
	ready, err := memopt.New(m, memopt.Options{})
	if err != nil {
		return err
	}
	for _, level := range []memopt.Level{0, 2} {
		p, err := ready.Plan(context.Background(), level, memopt.PlanOptions{})
		if err != nil {
			return err
		}
		a, err := p.Anchor()
		if err != nil {
			return err
		}
		if _, err := p.Rewrite(memopt.RewriteOptions{Anchors: a}); err != nil {
			return err
		}
	}
	_, err = ortsim.Simulate(m, nil)
	return err
}

// gradHostile differentiates, and plans what comes of it.
func gradHostile(m *graph.Model) error {
	opts := autograd.Options{}
	for _, d := range m.Graph.Outputs {
		opts.Losses = append(opts.Losses, autograd.Loss{Name: m.Graph.Values[d.Value].Name, Seed: true})
	}
	for _, d := range m.Graph.Inputs {
		if d.Type.DType.IsFloat() {
			opts.Wrt = append(opts.Wrt, m.Graph.Values[d.Value].Name)
		}
	}
	for len(opts.Losses) > 0 {
		j, err := autograd.Differentiate(m.Clone(), opts)
		if err == nil {
			err = planHostile(j.Model)
		}
		if len(opts.Losses) == 1 {
			return err
		}
		opts.Losses = opts.Losses[:1]
	}
	return nil
}

// polled is a context that ends after it has been polled a number of times, for loops that would
// not end.
type polled struct {
	context.Context
	left int
}

func (p *polled) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

// onDevice runs a step or two.
func onDevice(d executor.Device) func(m *graph.Model) error {
	return func(m *graph.Model) error {
		types, err := prepared(m)
		if err != nil {
			return err
		}
		s, err := executor.Open(context.Background(), m, types, d,
			executor.Options{Threads: 1, MemLimit: 64 << 20, Guard: true})
		if err != nil {
			return err
		}
		defer s.Close()
		fill := dataset.NewFiller(m.Graph, nil, 1)
		for _, in := range m.Graph.Inputs {
			x, err := fill.Fill(in.Value)
			if err != nil {
				continue // the run will say that it has no data
			}
			if err := s.SetInput(m.Graph.Values[in.Value].Name, x); err != nil {
				return err
			}
		}
		for range 2 {
			if err := s.Run(&polled{context.Background(), 5000}); err != nil {
				return err
			}
		}
		for i := range m.Graph.Outputs {
			s.Output(i)
		}
		return nil
	}
}
