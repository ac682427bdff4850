package train

import (
	"slices"

	"memopt/executor"
	"memopt/graph/live"
	"memopt/symbolic"
)

// outset is where a job is before an update of several micro-batches: one that is not completed has to
// leave no trace. Parameters and moments change by the update alone, and sums begin as zeros, so that it
// needs the position among the samples and the states that the micro-batches hand on, such as running
// statistics.
type outset struct {
	index, samples int64
	names          []string // of states, in one order with states
	states         []*executor.Tensor
}

// findCarried finds the states that micro-batches hand on; a step that updates has no need of them.
func (j *job) findCarried() error {
	if j.update == nil {
		return nil
	}
	g := j.Steps.Step.Graph
	list, err := live.FindStates(j.Steps.Step.Model)
	if err != nil {
		return err
	}
	env := j.Steps.dims(j.Plans.Rows)
	for _, c := range list {
		name := g.ValueName(c.In)
		i := slices.IndexFunc(j.Steps.States, func(s State) bool { return s.Name == name })
		if i >= 0 && !j.Steps.isSum(name) {
			j.before.names = append(j.before.names, name)
			j.before.states = append(j.before.states, room(&j.Steps.States[i], env))
		}
	}
	return nil
}

// setOut notes where the job is before an update.
func (j *job) setOut() error {
	b := &j.before
	b.index, b.samples = j.index, j.samples
	for i, name := range b.names {
		if err := j.machine.Read(name, b.states[i].Data); err != nil {
			return err
		}
	}
	return nil
}

// goBack is the inverse of setOut.
func (j *job) goBack() error {
	b := &j.before
	j.index, j.samples = b.index, b.samples
	for i, name := range b.names {
		if err := j.machine.Put(name, b.states[i]); err != nil {
			return err
		}
	}
	return nil
}

// room is host memory for a state.
func room(s *State, env symbolic.Env) *executor.Tensor {
	shape := executor.EvalShape(s.Type, env)
	n, _ := executor.Bytes(s.Type.DType, shape)
	return &executor.Tensor{DType: s.Type.DType, Shape: shape, Data: make([]byte, (n+7)&^7)[:n]}
}
