package ortfiles

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/inputfile"
	"memopt/internal/mapfile"
	"memopt/internal/memlimit"
)

// Checkpoint is a file "checkpoint". The contents of its tensors lie in the file, which is mapped: they
// are read-only, end with Close, and may begin at any byte.
type Checkpoint struct {
	Trained    []Tensor // the parameters that are trained
	Frozen     []Tensor // the others
	Groups     []Group  // of the optimizer
	Properties []Property
	mapped     *mapfile.File
}

// Tensor is a tensor with its name.
type Tensor struct {
	Name string
	*executor.Tensor
}

// Group is the state of an optimizer's group of parameters.
type Group struct {
	Name         string
	Step         int64   // updates so far
	LearningRate float32 // at the beginning
	States       []State
}

// State is an optimizer's state for a parameter.
type State struct {
	Parameter string
	Moments   []Tensor // called momentum0, momentum1
}

// Property is a user's addition.
type Property struct {
	Name  string
	Value any // an int64, float32 or string
}

// identifier marks a checkpoint's flatbuffer.
const identifier = "ODTC"

// newestVersion is the newest of the format that is known.
const newestVersion = 2

// Limits of a checkpoint. Names of tensors are unique in their list, so that a few bytes of a file
// cannot demand much memory.
const (
	maxName    = 1 << 16
	maxShort   = 64 // bytes of a moment's name
	maxMoments = 8
	maxRank    = 64
)

// Places of the fields in their tables, as the schemas list them.
const (
	checkpointVersion, checkpointModule, checkpointGroups, checkpointProperties = 0, 1, 2, 3

	moduleTrained, moduleFrozen, moduleNominal, moduleExternal = 0, 1, 2, 3

	groupName, groupStep, groupRate, groupStates = 0, 1, 2, 3

	stateParameter, stateMoments = 0, 1

	bagInts, bagFloats, bagStrings = 0, 1, 2

	propertyName, propertyValue = 0, 1

	tensorName, tensorDims, tensorType, tensorRaw = 0, 2, 3, 4
)

// OpenCheckpoint opens a checkpoint. Errors name the file and the tensor.
func OpenCheckpoint(path string) (c *Checkpoint, err error) {
	file, _, err := inputfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	mapped, err := mapfile.Map(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c = &Checkpoint{mapped: mapped}
	if err := c.read(); err != nil {
		mapped.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Close ends the mapping; tensors must not be used any more.
func (c *Checkpoint) Close() error {
	if c == nil {
		return nil
	}
	return c.mapped.Close()
}

// read reads everything but the contents of tensors.
func (c *Checkpoint) read() (err error) {
	defer mapfile.Guard(&err)()
	b := &buffer{data: c.mapped.Data}
	root := b.root(identifier)
	if v := b.fieldInt32(root, checkpointVersion); b.err == nil && (v < 1 || v > newestVersion) {
		return fmt.Errorf("the format's version is %d; wanted 1 or %d", v, newestVersion)
	}
	module := b.table(root, checkpointModule)
	switch {
	case b.fieldBool(module, moduleNominal):
		b.fail("it is a nominal checkpoint, which has names and no weights; wanted one that was saved with them")
	case b.fieldBool(module, moduleExternal):
		b.fail("its weights lie in another file, which memopt does not read; save it with less than 2 GB of weights")
	}
	c.Trained = b.readTensors(module, moduleTrained, maxName)
	c.Frozen = b.readTensors(module, moduleFrozen, maxName)
	names := names{}
	for _, t := range append(append([]Tensor{}, c.Trained...), c.Frozen...) {
		names.add(b, "parameter", t.Name)
	}
	c.Groups = b.groups(root)
	c.Properties = b.properties(b.table(root, checkpointProperties))
	return b.err
}

// names are names that may stand in a list once.
type names map[string]bool

func (n names) add(b *buffer, what, name string) {
	if n[name] {
		b.fail("%s %q stands there twice", what, name)
	}
	n[name] = true
}

// readTensors reads a vector of tensors, whose names have at most most bytes.
func (b *buffer) readTensors(t table, index, most int) []Tensor {
	var list []Tensor
	seen := names{}
	for _, at := range b.tables(t, index) {
		x := b.tensor(at, most)
		seen.add(b, "tensor", x.Name)
		if b.err != nil {
			return nil
		}
		list = append(list, x)
	}
	return list
}

// tensor reads a tensor.
func (b *buffer) tensor(at table, most int) Tensor {
	t := Tensor{b.text(at, tensorName, most), &executor.Tensor{Shape: []int{}}}
	t.DType = graph.DType(b.fieldInt32(at, tensorType))
	for _, d := range b.int64s(at, tensorDims, maxRank) {
		t.Shape = append(t.Shape, int(d))
	}
	t.Data = b.blob(at, tensorRaw)
	if b.err != nil {
		return t
	}
	switch size, ok := executor.Bytes(t.DType, t.Shape); {
	case t.DType.Bits() < 8 || t.DType == graph.Bool:
		b.fail("tensor %q has type %v; wanted numbers of whole bytes", t.Name, t.DType)
	case !ok:
		b.fail("tensor %q: shape %v has a negative dim or more than 2^62 bytes", t.Name, t.Shape)
	case size != len(t.Data):
		b.fail("tensor %q (%v) has %d bytes; wanted %d", t.Name, t.Tensor, len(t.Data), size)
	}
	return t
}

// groups reads the optimizer's groups.
func (b *buffer) groups(root table) []Group {
	var list []Group
	seen := names{}
	for _, at := range b.tables(root, checkpointGroups) {
		g := Group{Name: b.text(at, groupName, maxName), Step: b.fieldInt64(at, groupStep),
			LearningRate: b.fieldFloat(at, groupRate)}
		seen.add(b, "optimizer group", g.Name)
		if g.Step < 0 {
			b.fail("optimizer group %q: step is %d; it counts updates", g.Name, g.Step)
		}
		parameters := names{}
		for _, at := range b.tables(at, groupStates) {
			s := State{Parameter: b.text(at, stateParameter, maxName)}
			parameters.add(b, fmt.Sprintf("optimizer group %q: parameter", g.Name), s.Parameter)
			if _, n := b.length(at, stateMoments, 4); n > maxMoments {
				b.fail("parameter %q has %d moments; at most %d are read", s.Parameter, n, maxMoments)
			}
			if b.err != nil {
				return nil
			}
			s.Moments = b.readTensors(at, stateMoments, maxShort)
			g.States = append(g.States, s)
		}
		if b.err != nil {
			return nil
		}
		list = append(list, g)
	}
	return list
}

// properties reads the user's additions.
func (b *buffer) properties(bag table) []Property {
	var list []Property
	seen := names{}
	for _, kind := range []struct {
		index int
		value func(at table) any
	}{
		{bagInts, func(at table) any { return b.fieldInt64(at, propertyValue) }},
		{bagFloats, func(at table) any { return b.fieldFloat(at, propertyValue) }},
		{bagStrings, func(at table) any { return b.text(at, propertyValue, maxName) }},
	} {
		for _, at := range b.tables(bag, kind.index) {
			p := Property{b.text(at, propertyName, maxName), kind.value(at)}
			seen.add(b, "property", p.Name)
			if err := memlimit.Check(int64(len(p.Name)+maxShort), "properties"); err != nil && b.err == nil {
				b.err = err
			}
			if b.err != nil {
				return nil
			}
			list = append(list, p)
		}
	}
	return list
}
