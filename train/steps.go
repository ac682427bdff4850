package train

import (
	"errors"
	"fmt"
	"slices"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/graph/precision"
	"memopt/recompute"
	"memopt/symbolic"
	"memopt/train/data"
)

// Recipe decides the steps of a job.
type Recipe struct {
	// Differentiate has the options of the differentiation of a forward model. Outputs without any globs stands for
	// the losses alone, unless Bare; LossOutput, Statistics, LossScale and Accumulate follow from the
	// other fields.
	Differentiate autograd.Options
	// Optimizer is the formula of the update. With Kind "" the step has gradients and no update. Jobs
	// have the learning rate as an input of the step, which is 0 here.
	Optimizer autograd.Optimizer
	// Bare makes a step of gradients and the update alone, without the additions of a job: the loss as an
	// output, running statistics as states, and values that must be finite (op.Watched).
	Bare bool
	// Seeds takes the gradients of all float outputs as inputs of the step where a model makes no loss.
	Seeds bool
	// Micros is the number of micro-batches per update; with 0 and 1 the step itself updates. For example, 4
	// micro-batches of 8 rows make one update of 32 rows.
	Micros int
	// Apart makes each gradient whole before it is added to its sum, so that sums have the bits that as many
	// ranks come to.
	Apart bool
	// LossScale names the input for the scale of the losses; "" without a loss scale.
	LossScale string
	// Seed is that of random nodes without a seed of their own.
	Seed int64
	// Home says that the states lie in a folder (Config.Home), outside of every budget.
	Home bool
}

// Steps are the models that a job executes. Symbols of the batch need not be bound.
type Steps struct {
	// Step is executed for every micro-batch. It updates the parameters, or adds to sums of their
	// gradients.
	Step *memopt.Model
	// Update applies the sums; nil where Step updates.
	Update *memopt.Model
	// Combine adds up the sums of several ranks before Update; nil with one rank, or if Step does.
	Combine *memopt.Model
	// Eval makes the loss, without updates and as in inference; nil if no loss is known.
	Eval *memopt.Model
	// Forward is the model that was differentiated; nil if the model is a step graph.
	Forward *memopt.Model
	Joint   *autograd.Joint
	// Loss names the output that is the loss, LossGrad the input for its gradient; "" without one.
	Loss, LossGrad string
	// Weights is how the losses of batches make up those of updates and evaluations.
	Weights autograd.Weights
	// Params are the trained parameters. States are all values that steps hand on, or that must exist
	// before the first step, with Params first.
	Params []string
	States []State
	// Inputs are the inputs that data must provide, by their names. Batch is the symbol of their
	// first dim, and each step takes Rows of them; "" if the dim is a number.
	Inputs []graph.ValueID // of Step
	Batch  string
	Rows   int64
	// Homed says that the states have a home (Recipe.Home).
	Homed bool
	// Lossless means that the gradients of the model's outputs are inputs of the step (Recipe.Seeds).
	Lossless bool
	// Ragged is the symbol whose size differs from batch to batch (Vary), from Least to its binding; "" if there is
	// none.
	Ragged string
	Least  int64
	first  symbolic.Expr // the dim of the batch
	twins  []string      // symbols of the first dims of other inputs, which count samples, too
	named  []string      // inputs with arrays of their names in the data
	agreed bool          // the step of one of several ranks, which make each update together or not at all
}

// State is a value that stays from step to step, or at least throughout the job.
type State struct {
	Name  string
	Type  graph.Type
	Zero  bool              // it begins as zeros
	Data  *graph.TensorData // its first value in the model; nil if the model has none
	Next  bool              // steps give it a next value
	Model bool              // it belongs to the model, as a parameter or a statistic, not to the optimizer
}

// MakeStep makes the models of a training step: Step, Update where gradients are accumulated, and Combine. It
// does not look for data and states, which only a job needs. A graph with gradients gets the update of the
// recipe; one that updates its parameters is taken as it is. The errors are those of Model.Differentiate and
// Model.Updating.
func MakeStep(m *memopt.Model, r Recipe) (*Steps, error) {
	s := &Steps{named: r.Differentiate.Data}
	if err := s.differentiate(m, r); err != nil {
		return nil, err
	}
	if !r.Bare {
		s.watch()
	}
	if r.Home {
		return s, s.lodge()
	}
	return s, nil
}

// lodge gives the states a home: no plan of the steps counts them.
func (s *Steps) lodge() error {
	if err := s.findStates(); err != nil {
		return err
	}
	s.Homed = true
	for _, m := range []*memopt.Model{s.Step, s.Update, s.Combine} {
		if m == nil {
			continue
		}
		m.Model = m.Model.Clone() // which may be the caller's
		for _, st := range s.States {
			if v, ok := m.Graph.Lookup(st.Name); ok {
				m.Graph.Values[v].Homed = true
			}
		}
	}
	return nil
}

// Make makes the steps of a job from a forward model, or takes a step graph as it is.
func Make(m *memopt.Model, r Recipe) (*Steps, error) {
	r.Optimizer.LR = 0 // an input
	s, err := MakeStep(m, r)
	if err != nil {
		return nil, err
	}
	s.Step.Model = recompute.Seed(s.Step.Model, r.Seed)
	if s.States == nil {
		if err := s.findStates(); err != nil {
			return nil, err
		}
	}
	if err := s.findInputs(); err != nil {
		return nil, err
	}
	if s.Loss != "" {
		if s.Eval, err = s.Step.Inference([]string{s.Loss}, s.modelStates()); err != nil {
			return nil, err
		}
		if err := s.WeighEval(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// WeighEval gives Eval an output for the weight of a batch's loss.
func (s *Steps) WeighEval() (err error) {
	s.Eval, s.Weights, err = s.Eval.Weigh(s.Loss, s.modelStates())
	return err
}

// unit is the divisor of losses of so many rows where every element counts.
func (s *Steps) unit(rows int64) float32 {
	if s.Weights.Unit != nil {
		if n, err := s.Weights.Unit.Eval(s.dims(rows)); err == nil && n > 0 {
			return float32(n)
		}
	}
	return float32(rows)
}

// watch has the loss and the norm of the gradients watched. Where losses are scaled, gradients may
// overflow, and the step itself leaves out the update.
func (s *Steps) watch() {
	for _, m := range []*memopt.Model{s.Step, s.Update} {
		if m != nil {
			op.RecordWatch(m.Model, s.watched(m.Graph))
		}
	}
}

// watched lists the outputs of a step that are watched. With several ranks, a rank may not end alone
// a step that the others wait in: there the guard of the update finds numbers that are not finite.
func (s *Steps) watched(g *graph.Graph) (names []string) {
	if s.agreed {
		return nil
	}
	loss := s.Loss
	if _, ok := g.Lookup(autograd.CountedOutput); ok {
		loss = autograd.CountedOutput
	}
	for _, name := range []string{loss, autograd.NormOutput} {
		v, ok := g.Lookup(name)
		if ok && g.Values[v].Output && (s.Joint.LossScale == "" || name == loss) {
			names = append(names, name)
		}
	}
	return names
}

// several reports whether an update takes several batches.
func (r *Recipe) several() bool { return r.Micros > 1 || r.Optimizer.Ranks.Count > 1 }

// differentiate makes the models.
func (s *Steps) differentiate(m *memopt.Model, r Recipe) error {
	if r.Differentiate.Precision == precision.BF16Pure {
		r.Optimizer.Stochastic, r.Optimizer.Seed = true, r.Seed
	}
	ranks := r.Optimizer.Ranks
	if s.agreed = ranks.Count > 1 && r.Micros <= 1; s.agreed {
		r.Optimizer.Guard = true
	}
	if HasBackward(m) {
		return s.takeStep(m, r)
	}
	s.Forward = m
	err := s.forward(m, r, r.gradients())
	if errors.Is(err, autograd.ErrNoLoss) && r.Seeds && len(r.Differentiate.Losses) == 0 {
		if o := r.gradients(); seedOutputs(m, &o) {
			s.Lossless = true
			err = s.forward(m, r, o)
		}
	}
	return err
}

// HasBackward reports whether a model has a backward half.
func HasBackward(m *memopt.Model) bool {
	_, err := live.FindBoundary(m.Model)
	return !errors.Is(err, live.ErrNoBoundary)
}

// gradients are the options of differentiation for a forward model.
func (r *Recipe) gradients() autograd.Options {
	o := r.Differentiate
	o.LossScale = r.LossScale
	if r.Bare {
		return o
	}
	o.Weigh = r.several()
	if o.Statistics = true; o.Outputs == nil {
		o.Outputs = []string{autograd.TheLosses}
	}
	o.LossOutput = !slices.ContainsFunc(o.Losses, func(l autograd.Loss) bool { return l.Seed })
	return o
}

// seedOutputs makes the gradients of all float outputs inputs of the step; false without float outputs.
func seedOutputs(m *memopt.Model, o *autograd.Options) bool {
	o.LossOutput = false
	for _, d := range m.Graph.Outputs {
		if v := &m.Graph.Values[d.Value]; v.Type.DType.IsFloat() {
			o.Losses = append(o.Losses, autograd.Loss{Name: m.Graph.ValueName(d.Value), Seed: true})
		}
	}
	return len(o.Losses) > 0
}

// forward makes the models of a forward model's step.
func (s *Steps) forward(m *memopt.Model, r Recipe, o autograd.Options) (err error) {
	update := &r.Optimizer
	if r.Optimizer.Kind == "" {
		update = nil
	}
	switch several := r.Micros > 1; {
	case several && r.Apart:
		whole, _, err := m.Differentiate(o, nil)
		if err != nil {
			return err
		}
		return s.takeStep(whole, r)
	case several && update != nil:
		s.Step, s.Update, s.Joint, err = m.Accumulate(o, r.Optimizer)
	default:
		if o.Accumulate = several; several {
			update = nil
		}
		s.Step, s.Joint, err = m.Differentiate(o, update)
	}
	if err != nil {
		return err
	}
	return s.joined(r)
}

// joined makes the further parts of a step, once its models exist.
func (s *Steps) joined(r Recipe) error {
	s.Loss, s.LossGrad, s.Params = s.Joint.Loss, s.Joint.LossGrad, s.Joint.Wrt
	return s.combine(r)
}

// takeStep takes a graph that has a backward half: one with gradients gets the update appended, or a
// step for it; one that updates its parameters is complete.
func (s *Steps) takeStep(m *memopt.Model, r Recipe) (err error) {
	s.Step, s.Update, s.Joint, err = m.Updating(memopt.UpdateOptions{Optimizer: r.Optimizer,
		Freeze: r.Differentiate.NoGrad, LossScale: r.LossScale, Accumulate: r.Micros > 1, Weigh: r.several()})
	if err != nil {
		return err
	}
	if _, ok := s.Step.Graph.Lookup(autograd.CountsInput); r.Optimizer.Ranks.Count > 1 && s.Update == nil && !ok {
		return callerError("%s: updates its parameters itself, which several ranks cannot do together: take the "+
			"forward model, or a graph of gradients", m.Path)
	}
	return s.joined(r)
}

// combine makes the step that adds up the sums of several ranks.
func (s *Steps) combine(r Recipe) (err error) {
	if r.Optimizer.Ranks.Count > 1 && s.Update != nil {
		s.Combine, err = s.Step.Combine(s.Joint, r.Optimizer.Ranks)
	}
	return err
}

// shard is the shard whose piece a state is, or nil.
func (s *Steps) shard(name string) (shard *autograd.Shard, suffix string) {
	for i := range s.Joint.Shards {
		sh := &s.Joint.Shards[i]
		for _, suffix := range sh.States {
			if name == sh.Name+suffix {
				return sh, suffix
			}
		}
	}
	return nil, ""
}

// findStates lists the states of the steps, parameters first.
func (s *Steps) findStates() error {
	seen := map[string]bool{}
	add := func(m *memopt.Model, v graph.ValueID, zero, next bool) {
		val := &m.Graph.Values[v]
		if name := m.Graph.ValueName(v); !seen[name] {
			seen[name] = true
			s.States = append(s.States, State{Name: name, Type: val.Type, Data: val.Data, Zero: zero,
				Next: next})
		}
	}
	for _, name := range s.Params {
		if v, ok := s.Step.Graph.Lookup(name); ok {
			add(s.Step, v, false, true)
		}
	}
	for _, m := range []*memopt.Model{s.Step, s.Update} {
		if m == nil {
			continue
		}
		states, err := live.FindStates(m.Model)
		if err != nil {
			return err
		}
		zero := live.OptimizerStates(m.Model)
		for _, st := range states {
			add(m, st.In, slices.Contains(zero, st.In), true)
		}
	}
	s.findConstants(add, seen)
	for i := range s.States {
		s.States[i].Model = !s.States[i].Zero
	}
	return nil
}

// findConstants lists the inputs of the step that are no data: inputs of the model of static shape
// that the job does not train.
func (s *Steps) findConstants(add func(m *memopt.Model, v graph.ValueID, zero, next bool), seen map[string]bool) {
	g := s.Step.Graph
	for _, d := range g.Inputs {
		val := &g.Values[d.Value]
		if seen[g.ValueName(d.Value)] || s.fed(g.ValueName(d.Value)) || val.Data != nil {
			continue
		}
		if s.isConstant(d.Value) && !slices.Contains(s.named, g.ValueName(d.Value)) {
			add(s.Step, d.Value, false, false)
		}
	}
}

// isConstant reports whether an input of the step is no data. If data have a symbol for their rows,
// inputs without symbols are constants; otherwise float inputs that do not look like data are.
func (s *Steps) isConstant(v graph.ValueID) bool {
	t := s.Step.Graph.Values[v].Type
	for _, dim := range t.Shape.Dims {
		if _, ok := dim.Const(); !ok {
			return false
		}
	}
	if s.symbolic() {
		return true
	}
	return t.DType.IsFloat() && !slices.Contains(s.Joint.Data, s.Step.Graph.ValueName(v))
}

// symbolic reports whether an input of the step has a symbol for its first dim.
func (s *Steps) symbolic() bool {
	g := s.Step.Graph
	return slices.ContainsFunc(g.Inputs, func(d graph.Decl) bool {
		dims := g.Values[d.Value].Type.Shape.Dims
		return len(dims) > 0 && symbolName(dims[0]) != ""
	})
}

// symbolName is the symbol that a dim is, or "".
func symbolName(dim symbolic.Expr) string {
	if list := dim.Symbols(); len(list) == 1 && dim.Equal(symbolic.Sym(list[0])) {
		return list[0]
	}
	return ""
}

// modelStates are the names of the states that belong to the model.
func (s *Steps) modelStates() (names []string) {
	for i := range s.States {
		if s.States[i].Model {
			names = append(names, s.States[i].Name)
		}
	}
	return names
}

// fed reports whether the loop gives an input of the step its value. Gradients that a step without a loss
// takes from outside are data.
func (s *Steps) fed(name string) bool {
	own := []string{autograd.LRInput, autograd.UnitInput, autograd.CountsInput, autograd.TotalInput, s.Joint.LossScale}
	return slices.Contains(own, name) ||
		!s.Lossless && (name == s.LossGrad || slices.Contains(s.Joint.OtherGrads, name))
}

// findInputs lists the inputs that data must give, and finds the dim of the batch.
func (s *Steps) findInputs() error {
	g := s.Step.Graph
	known := map[string]bool{}
	for i := range s.States {
		known[s.States[i].Name] = true
	}
	for _, d := range g.Inputs {
		if name := g.ValueName(d.Value); !known[name] && !s.fed(name) && g.Values[d.Value].Data == nil {
			s.Inputs = append(s.Inputs, d.Value)
		}
	}
	if len(s.Inputs) == 0 {
		return callerError("%s: the model has no inputs for data: all are floats of fixed shapes, which are taken for "+
			"weights unless data has arrays of their names", s.Step.Path)
	}
	s.findBatch()
	if s.Batch != "" {
		return nil
	}
	n, err := s.first.Eval(s.Step.Dims)
	if err != nil || n < 1 {
		return callerError(
			"%s: the first dim of the data is %v: wanted a symbol or a number, that of the samples of a "+
				"batch", s.Step.Path, s.first)
	}
	s.Rows = n
	return nil
}

// Describe returns the inputs as a source of data sees them. Dims that are unbound are
// data.Unknown.
func (s *Steps) Describe() ([]data.Input, error) {
	g := s.Step.Graph
	order, err := graph.Topological(g)
	if err != nil {
		return nil, err
	}
	env := s.dims(1)
	ranges := op.InputRanges(g, s.Step.Types, order, env)
	var list []data.Input
	for _, v := range s.Inputs {
		t := g.Values[v].Type
		in := data.Input{Name: g.ValueName(v), DType: t.DType, Batched: s.batched(v),
			Whole: s.whole(v)}
		for i, dim := range t.Shape.Dims {
			if i == 0 && in.Batched {
				continue
			}
			n, err := dim.Eval(env)
			if err != nil {
				n = data.Unknown
			}
			in.Shape = append(in.Shape, int(n))
		}
		r := ranges[v]
		in.Classes, in.Ignore, in.HasIgnore = r.Classes, r.Ignore, r.HasIgnore
		in.Shifts = op.DropsFirst(g, v, func(v graph.ValueID) []int64 { return evalDims(g, v, env) })
		list = append(list, in)
	}
	return list, nil
}

// Bind binds the symbols that the data decide.
func (s *Steps) Bind(inputs []data.Input) error {
	given := map[string]*executor.Tensor{}
	rows := max(s.Rows, 1)
	if n, bound := s.Step.Dims[s.Batch]; bound {
		rows = n
	}
	for _, in := range inputs {
		shape := in.Shape
		if in.Batched {
			shape = append([]int{int(rows)}, in.Shape...)
		}
		given[in.Name] = &executor.Tensor{DType: in.DType, Shape: shape}
	}
	sized := s.sized(s.Step, rows)
	if err := sized.Bind(given); err != nil {
		return err
	}
	was := s.Step.Dims
	s.Step.Dims = sized.Dims
	for _, symbol := range s.batches() {
		if n, bound := was[symbol]; bound {
			s.Step.Dims[symbol] = n
		} else {
			delete(s.Step.Dims, symbol)
		}
	}
	return nil
}

// dims are the bindings of a step of so many rows.
func (s *Steps) dims(rows int64) symbolic.Env {
	env := symbolic.Env{}
	for name, n := range s.Step.Dims {
		env[name] = n
	}
	for _, symbol := range s.batches() {
		env[symbol] = rows
	}
	return env
}

// sized is a model of the steps at so many rows.
func (s *Steps) sized(m *memopt.Model, rows int64) *memopt.Model {
	out := *m
	out.Dims = s.dims(rows)
	return &out
}

// callerError is an error of the caller's arguments.
func callerError(format string, args ...any) error {
	return &memopt.Error{Fault: memopt.OfCaller, Err: fmt.Errorf(format, args...)}
}

// trains reports whether a name is that of a parameter.
func (s *Steps) trains(name string) bool { return slices.Contains(s.Params, name) }

// IsState reports whether a name is that of a state.
func (s *Steps) IsState(name string) bool {
	return slices.ContainsFunc(s.States, func(st State) bool { return st.Name == name })
}

// Frozen counts the weights that are not trained: float tensors of two dims or more that no step
// changes.
func (s *Steps) Frozen() (n int) {
	g := s.Step.Graph
	for i := range g.Values {
		val := &g.Values[i]
		if val.Data != nil && val.Type.DType.IsFloat() && len(val.Data.Dims) > 1 &&
			!s.IsState(g.ValueName(graph.ValueID(i))) {
			n++
		}
	}
	return n
}

// evalDims returns the dims of a value in numbers; nil where some are not known.
func evalDims(g *graph.Graph, v graph.ValueID, env symbolic.Env) []int64 {
	shape := g.Values[v].Type.Shape
	if !shape.Ranked {
		return nil
	}
	dims := make([]int64, len(shape.Dims))
	for i, d := range shape.Dims {
		n, err := d.Eval(env)
		if err != nil {
			return nil
		}
		dims[i] = n
	}
	return dims
}
