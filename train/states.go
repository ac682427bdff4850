package train

import (
	"errors"
	"fmt"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/hint"
	"memopt/internal/half"
	"memopt/internal/memlimit"
	"memopt/train/safetensors"
)

// fillStates gives states, those that are wanted, their first values: those of the checkpoint, else those
// that the caller has given, else the model's, zeros of the optimizer's, or drawn ones.
func (j *job) fillStates(wanted func(*State) bool) error {
	if err := memlimit.Check(j.Plans.Persistent, "the %d states of the job", len(j.Steps.States)); err != nil {
		return err
	}
	env := j.Steps.dims(j.Plans.Rows)
	var missing []string
	kept := j.Home.Owns(j.Resume)
	for i := range j.Steps.States {
		s := &j.Steps.States[i]
		if !wanted(s) || kept && !j.Steps.isSum(s.Name) {
			continue
		}
		shape := executor.EvalShape(s.Type, env)
		if shape == nil {
			return callerError("state %q: %v has a dim without a number: bind it with %v", s.Name, s.Type, hint.Dims)
		}
		given, err := j.fill(s, shape)
		if err != nil {
			return err
		}
		if !given {
			missing = append(missing, s.Name)
		}
	}
	if len(missing) > 0 {
		return callerError("%s: the model has no values for %s: give them with %v, or make them "+
			"up with %v", j.Steps.Step.Path, few(missing), hint.Init.With("FILE.safetensors"),
			hint.Init.With("random:SEED"))
	}
	return nil
}

// fill gives a state its first value, and reports whether it has one.
func (j *job) fill(s *State, shape []int) (given bool, err error) {
	scratch := executor.NewArena(executor.SameAsRequested, 0)
	defer func() { err = errors.Join(err, scratch.Close()) }()
	t, err := j.first(s, shape, scratch)
	switch {
	case err != nil:
		return false, err
	case t != nil:
		err = j.machine.Put(s.Name, t)
	case s.Zero:
		err = j.machine.Zero(s.Name, s.Type.DType, shape)
	default:
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("state %q: %w", s.Name, err)
	}
	return true, nil
}

// first is the first value of a state, nil if it is not known. One that is made up or converted lies in scratch: Go's
// heap would keep the memory of the largest for the rest of the job (RLIMIT_DATA).
func (j *job) first(s *State, shape []int, scratch *executor.Arena) (*executor.Tensor, error) {
	if j.Resume != nil {
		return j.saved(s, shape)
	}
	if t := j.Begin[s.Name]; t != nil {
		t, err := halved(t, s.Type.DType, scratch)
		if err != nil {
			return nil, fmt.Errorf("state %q: %w", s.Name, err)
		}
		return t, sameType("the given weights", s, shape, t)
	}
	if s.Data != nil {
		raw, err := s.Data.Source.Bytes()
		if err != nil {
			return nil, fmt.Errorf("initializer %q: %w", s.Name, err)
		}
		return &executor.Tensor{DType: s.Type.DType, Shape: shape, Data: raw}, nil
	}
	if s.Zero || j.RandomSeed == nil {
		return nil, nil
	}
	v, ok := j.Steps.Step.Graph.Lookup(s.Name)
	if !ok {
		return nil, nil
	}
	f := dataset.NewFiller(j.Steps.Step.Graph, j.Steps.dims(j.Plans.Rows), *j.RandomSeed)
	f.Memory = scratch.Reserve
	return f.Fill(v)
}

// halved is a given weight of float32 in bfloat16, where the precision of the step has made it so: rounded to the
// nearest, as the model's weights are. Others stay as they are.
func halved(t *executor.Tensor, d graph.DType, scratch *executor.Arena) (*executor.Tensor, error) {
	if t.DType != graph.Float32 || d != graph.BFloat16 {
		return t, nil
	}
	data, err := scratch.Reserve(len(t.Data) / 2)
	if err != nil {
		return nil, err
	}
	out := &executor.Tensor{DType: d, Shape: t.Shape, Data: data}
	to := executor.Of[half.BFloat16](out)
	for i, x := range executor.Of[float32](t) {
		to[i] = half.BFloat16From(x)
	}
	return out, nil
}

// saved is a state's entry in a checkpoint.
func (j *job) saved(s *State, shape []int) (*executor.Tensor, error) {
	if j.Steps.isSum(s.Name) {
		return nil, nil // zeros between updates
	}
	if shard, suffix := j.Steps.shard(s.Name); shard != nil {
		return j.savedPiece(s, shard, suffix)
	}
	file := j.Resume.Others
	if s.Model {
		file = j.Resume.Weights
	}
	t, ok := file.Tensor(s.Name)
	if !ok {
		return nil, callerError("checkpoint %s: has no %q, which the job needs: it is of another model or optimizer",
			j.Resume.Path, s.Name)
	}
	return t, sameType("checkpoint "+j.Resume.Path, s, shape, t)
}

// sameType requires a tensor to have a state's type.
func sameType(where string, s *State, shape []int, t *executor.Tensor) error {
	want := &executor.Tensor{DType: s.Type.DType, Shape: shape}
	if t.String() != want.String() {
		return callerError("%s: %q is %v, wanted %v", where, s.Name, t, want)
	}
	return nil
}

// few lists the first names of a list and counts the others.
func few(names []string) string {
	const most = 5
	text := ""
	for i, name := range names {
		if i == most {
			return text + fmt.Sprintf(" and %d more", len(names)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%q", name)
	}
	return text
}

// homeEntries lists the entries of a home: states of the model, and the others.
func (s *Steps) homeEntries(rows int64) (weights, others []safetensors.Entry, err error) {
	env := s.dims(rows)
	for i := range s.States {
		st := &s.States[i]
		e := safetensors.Entry{Name: st.Name, DType: st.Type.DType, Shape: executor.EvalShape(st.Type, env)}
		switch {
		case e.Shape == nil:
			return nil, nil, callerError("state %q: %v has a dim without a number: bind it with %v", st.Name, st.Type,
				hint.Dims)
		case st.Model:
			weights = append(weights, e)
		default:
			others = append(others, e)
		}
	}
	return weights, others, nil
}

// settle readies the file of states of a job that has a home.
func (j *job) settle() error {
	if j.Home == nil {
		return nil
	}
	weights, others, err := j.Steps.homeEntries(j.Plans.Rows)
	if err != nil {
		return err
	}
	from := j.Resume
	if !j.Home.Owns(from) {
		from = nil
	}
	j.Session.Home, err = j.Home.Lay(weights, others, from)
	return err
}

// entries lists the entries of a checkpoint: states of the model, and the others.
func (j *job) entries() (weights, others []safetensors.Entry) {
	env := j.Steps.dims(j.Plans.Rows)
	for i := range j.Steps.States {
		s := &j.Steps.States[i]
		if shard, suffix := j.Steps.shard(s.Name); shard != nil {
			others = append(others, j.wholeEntries(s, shard, suffix)...)
			continue
		}
		e := safetensors.Entry{Name: s.Name, DType: s.Type.DType, Shape: executor.EvalShape(s.Type, env)}
		switch {
		case s.Model:
			weights = append(weights, e)
		case !j.Steps.isSum(s.Name): // sums are zeros between updates
			others = append(others, e)
		}
	}
	return weights, others
}
