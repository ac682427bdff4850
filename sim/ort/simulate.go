package ort

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

// Case is a program to simulate.
type Case struct {
	// Program is a program of the graph whose facts are known, or of one that a rewrite makes of
	// it. Its steps stand in the order of the file.
	Program *live.Program
	// Shapes are those of the program's values, UnknownShape for values beyond them. Nil means that
	// the values are those of the graph.
	Shapes []Shape
	// Bound lists outputs that the caller gives memory, so that they are not in the arena.
	Bound []graph.ValueID
	// Cautious says that the arena's figure is the highest of several estimates: how much of its
	// chunks is wasted depends on values of a few bytes.
	Cautious bool
}

// Peaks are the highest bytes of one step, without inputs and weights.
type Peaks struct {
	Live  int64 // of the values that are alive
	Arena int64 // in use in the runtime's arena, whose chunks are up to twice as large as requested
}

// Simulator simulates one program of a graph after another in the same memory. Each result depends
// on its arguments alone.
type Simulator struct {
	*Facts
	optimizer *optimizer
	walks     [numWalks]orderer
	planner   bufferPlanner
}

// NewSimulator returns a simulator of programs of one graph.
func NewSimulator(f *Facts) *Simulator {
	return &Simulator{Facts: f, optimizer: newOptimizer(f), walks: walkers}
}

// Run simulates a case at the runtime's default settings: all optimizations, the default order.
func (s *Simulator) Run(c *Case) Peaks {
	program, order := s.optimizer.rewrite(c.Program)
	s.planner.bind(program, c)
	plan := s.planner.plan(program, order, s.shapesOf(c), s.Facts.shapes, false)
	p := Peaks{Live: plan.peak(program, order, s.space)}
	if c.Cautious {
		p.Arena = plan.mostInChunks(program, order, s.space)
	} else {
		p.Arena = plan.inChunks(program, order, s.space, 0)
	}
	return p
}

// Live returns the peak of the live bytes of a case that no optimization changes, in an order of
// its steps.
func (s *Simulator) Live(c *Case, w Walk) int64 {
	order := s.walks[w].run(c.Program)
	s.planner.bind(c.Program, c)
	return s.planner.plan(c.Program, order, s.shapesOf(c), s.Facts.shapes, w == Unoptimized).peak(c.Program,
		order, s.space)
}

func (s *Simulator) shapesOf(c *Case) []Shape {
	if c.Shapes == nil {
		return s.shape
	}
	return c.Shapes
}

// Simulate simulates a training graph, rewritten or not, in stock ONNX Runtime at its default
// settings. The error is a *symbolic.UnboundError, names invalid sizes, or is live.ErrNoBoundary
// for a graph without a backward half, because no order is known to be good for it.
func Simulate(m *graph.Model, env symbolic.Env) (Peaks, error) {
	return SimulateBound(m, env, nil, false)
}

// SimulateBound is Simulate for a caller that gives some outputs memory. A cautious simulation is
// that of Case.Cautious, and takes shapes with a dim that the file leaves open as unknown.
func SimulateBound(m *graph.Model, env symbolic.Env, bound []graph.ValueID, cautious bool) (Peaks, error) {
	if _, err := live.FindBoundary(m); err != nil {
		return Peaks{}, err
	}
	sizes, err := live.EvalSizes(m.Graph, env)
	if err != nil {
		return Peaks{}, err
	}
	p := live.NewProgram(m.Graph, graph.FileOrder(m.Graph), sizes)
	if _, err := p.Simulate(); err != nil { // the sizes of all values together overflow int64
		return Peaks{}, err
	}
	s := NewSimulator(NewFacts(m, env))
	c := &Case{Program: p, Bound: bound, Cautious: cautious}
	if cautious {
		c.Shapes = slices.Clone(s.shape)
		for _, d := range m.Graph.ValueInfo {
			if slices.ContainsFunc(d.Type.Shape.Dims, symbolic.Expr.IsUnknown) {
				c.Shapes[d.Value] = UnknownShape
			}
		}
	}
	return s.Run(c), nil
}
