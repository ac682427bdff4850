package roles

import (
	"bytes"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/modules"
)

// ChangeKind says how an exporter changed a program.
type ChangeKind uint8

const (
	// Merged: one initializer stands for several parameters, which were equal when the program was
	// exported, such as the scales of fresh norms. They would train as one.
	Merged ChangeKind = iota
	// Untied: two initializers are each other's transpose, such as an embedding and the head that the
	// program ties to it. They would train apart.
	Untied
	// Dropped: biases of zeros are left out. They would not train.
	Dropped
	// Folded: parameters were computed into others, or no node reads them.
	Folded
	// Frozen: nodes BatchNormalization are in inference mode, and read their running statistics.
	Frozen
	// FoldedNorms: batch norms were computed into the weights before them.
	FoldedNorms
	// Computed: initializers were computed of parameters that are not in the file, such as the exponential of one, and
	// train in their place.
	Computed
	// Apart: initializers were computed of a parameter that nodes read as well, such as 1 - w beside w. They would
	// train apart.
	Apart
)

// TrainsAnother reports whether a job on the file would train another model than the program is.
func (k ChangeKind) TrainsAnother() bool { return k == Merged || k == Untied || k == Apart }

// Change is a change of a program by its exporter that affects training.
type Change struct {
	Kind ChangeKind
	// Value is the initializer that stands for others (Merged), that is the transpose of another (Untied),
	// or that others were computed from (Apart); else "".
	Value string
	// Names are the parameters (Merged, Untied, Dropped, Folded, Computed), initializers (Apart), nodes
	// (Frozen) or modules (FoldedNorms). Without a signature of the program, parameters have the names of
	// their modules, and folded norms those of the modules before.
	Names []string
}

// exported finds the changes by the exporter.
func exported(m *graph.Model, t *told, r *Roles) []Change {
	e := &exporter{g: m.Graph, told: t, module: modulesOf(m)}
	e.norms()
	e.merged(t.absent(m.Graph))
	e.untied(r)
	e.computed()
	return e.list
}

// exporter collects changes.
type exporter struct {
	g      *graph.Graph
	told   *told
	module []string // by node, the innermost module; "": it is not known
	list   []Change
	uses   *graph.Uses // by isRead
}

// modulesOf returns the innermost modules of the nodes. A model without modules has no names.
func modulesOf(m *graph.Model) []string {
	names := make([]string, len(m.Graph.Nodes))
	tree, err := modules.Read(m, nil)
	if err != nil {
		return names
	}
	for id, call := range tree.Of {
		if call >= 0 {
			names[id] = tree.Modules[tree.Calls[call].Module].Name
			if tree.Root != "" {
				names[id] = tree.Root + "." + names[id]
			}
		}
	}
	return names
}

// add notes names of a change of a kind, and of a value.
func (e *exporter) add(kind ChangeKind, value string, names ...string) {
	i := slices.IndexFunc(e.list, func(c Change) bool { return c.Kind == kind && c.Value == value })
	if i < 0 {
		e.list = append(e.list, Change{Kind: kind, Value: value})
		i = len(e.list) - 1
	}
	e.list[i].Names = append(e.list[i].Names, names...)
}

// merged finds which initializers stand for parameters without an initializer of their own: in a file
// with the signature of the program, by the nodes of the parameter's module; in others, by weights
// that modules share.
func (e *exporter) merged(absent []string) {
	if !e.told.signed {
		e.sharedByModules()
		return
	}
	within := map[string][]graph.NodeID{}
	for id, name := range e.module {
		within[name] = append(within[name], graph.NodeID(id))
	}
	for _, name := range absent {
		module, own := splitName(name)
		if e.isFolded(module) {
			continue
		}
		others := e.standIns(within[module], module, own)
		switch i := slices.IndexFunc(others, e.isUniform); {
		case i >= 0:
			e.add(Merged, e.g.ValueName(others[i]), name)
		case own == "bias" && len(others) == 0 && len(within[module]) > 0:
			e.add(Dropped, "", name)
		case len(others) == 0:
			e.add(Folded, "", name)
		}
		// Otherwise the program shares the parameter: its elements are no constant by chance.
	}
}

// isFolded reports whether a module is a batch norm that was folded.
func (e *exporter) isFolded(module string) bool {
	return e.isNoted(FoldedNorms, module)
}

// splitName splits the name of a parameter, such as h.0.ln_1.weight, into its module's and its own.
func splitName(name string) (module, own string) {
	at := strings.LastIndexByte(name, '.')
	return name[:max(at, 0)], name[at+1:]
}

// standIns lists the parameters of other modules that nodes of a module read, those of the same own name
// first. Another own name cannot stand for a bias.
func (e *exporter) standIns(nodes []graph.NodeID, module, own string) (same []graph.ValueID) {
	var other []graph.ValueID
	for _, id := range nodes {
		for _, v := range e.g.Nodes[id].Inputs {
			if v == graph.NoValue || e.g.Values[v].Data == nil || !e.g.Values[v].Type.DType.IsFloat() {
				continue
			}
			switch of, name := splitName(e.g.ValueName(v)); {
			case of == module || e.told.specs[e.g.ValueName(v)].Kind != Parameter:
			case name == own:
				same = append(same, v)
			case own != "bias":
				other = append(other, v)
			}
		}
	}
	return append(same, other...)
}

// isUniform reports whether all elements of an initializer are the same number.
func (e *exporter) isUniform(v graph.ValueID) bool {
	first := 0.0
	return floats(e.g.Values[v].Data, func(i int, x float64) bool {
		if i == 0 {
			first = x
		}
		return x == first
	})
}

// sharedByModules finds weights, such as scales of norms and biases, that nodes of several modules share.
func (e *exporter) sharedByModules() {
	first := map[graph.ValueID]string{}
	for id, n := range e.g.Nodes {
		for _, slot := range table[n.Kind].weights {
			v := n.Input(slot)
			if v == graph.NoValue || e.module[id] == "" || e.g.Values[v].Data == nil || !e.isUniform(v) {
				continue
			}
			if module, seen := first[v]; !seen {
				first[v] = e.module[id]
			} else if module != e.module[id] {
				e.add(Merged, e.g.ValueName(v), e.module[id])
			}
		}
	}
}

// norms finds batch norms that training finds frozen or folded.
func (e *exporter) norms() {
	for id, n := range e.g.Nodes {
		if e.told.scripted && e.isFoldedInto(n) && !e.isFolded(e.module[id]) {
			e.add(FoldedNorms, "", e.module[id])
		}
		for _, r := range table[n.Kind].fixed {
			if r.Kind == Statistic && n.Int("training_mode", 0) == 0 && n.Output(1) == graph.NoValue {
				e.add(Frozen, "", e.g.NodeLabel(n.ID))
				break
			}
		}
	}
	for _, name := range e.told.buffers {
		if module, own := splitName(name); own == "running_mean" {
			if _, ok := e.g.Lookup(name); !ok {
				e.add(FoldedNorms, "", module)
			}
		}
	}
}

// isFoldedInto reports whether both weights of a node, such as a Conv, have lost their names in a file of
// torch.onnx.export(dynamo=False), as they do where a norm in inference mode is folded into them: they are called
// onnx::Conv_30 then, by their reader. An LSTM, whose weights are put in another order, has more inputs.
func (e *exporter) isFoldedInto(n *graph.Node) bool {
	return len(n.Inputs) == 3 && !slices.ContainsFunc(n.Inputs[1:], func(v graph.ValueID) bool {
		return v == graph.NoValue || e.g.Values[v].Data == nil ||
			!strings.HasPrefix(e.g.ValueName(v), "onnx::"+n.Op+"_")
	})
}

// untied finds pairs of matrices that are each other's transpose.
func (e *exporter) untied(r *Roles) {
	type shape [2]int64
	byShape := map[shape][]graph.ValueID{}
	for _, v := range e.g.Initializers {
		val := &e.g.Values[v]
		if val.Data == nil || len(val.Data.Dims) != 2 || min(val.Data.Dims[0], val.Data.Dims[1]) < 2 ||
			r.Of(v).Kind != Parameter {
			continue
		}
		dims := shape{val.Data.Dims[0], val.Data.Dims[1]}
		for _, other := range byShape[shape{dims[1], dims[0]}] {
			if !e.isUniform(v) && transposed(e.g.Values[other].Data, val.Data) {
				e.add(Untied, e.g.ValueName(other), val.Name)
			}
		}
		byShape[dims] = append(byShape[dims], v)
	}
}

// computed finds initializers that the exporter computed of parameters. Where nodes read the parameter as
// well, even its transpose trains apart. Otherwise those count whose elements are not just the parameter's
// in another order, which would train as the program's do.
func (e *exporter) computed() {
	for _, v := range e.g.Initializers {
		val := &e.g.Values[v]
		of := e.told.parametersOf(val.Name)
		if val.Data == nil || len(of) == 0 || e.isTranspose(val.Name) {
			continue
		}
		if i := slices.IndexFunc(of, e.isRead); i >= 0 {
			e.add(Apart, of[i], val.Name)
		} else if !e.told.isMoved(val.Name) && !(e.told.isGathered(val.Name) && hasDistinctRows(val.Data)) {
			for _, name := range of {
				if !e.isNoted(Computed, name) {
					e.add(Computed, "", name)
				}
			}
		}
	}
}

// hasDistinctRows reports whether no two rows of a tensor, along its last dim, are the same.
func hasDistinctRows(t *graph.TensorData) bool {
	if len(t.Dims) == 0 || t.Source == nil {
		return true
	}
	raw, err := t.Source.Bytes()
	size := int(t.Dims[len(t.Dims)-1]) * t.DType.Bits() / 8
	if err != nil || size == 0 {
		return err == nil
	}
	rows := slices.SortedFunc(slices.Chunk(raw, size), bytes.Compare)
	return len(slices.CompactFunc(rows, bytes.Equal)) == len(raw)/size
}

// isNoted reports whether a name is among those of a change of a kind.
func (e *exporter) isNoted(kind ChangeKind, name string) bool {
	return slices.ContainsFunc(e.list, func(c Change) bool { return c.Kind == kind && slices.Contains(c.Names, name) })
}

// isRead reports whether a node reads an initializer of that name.
func (e *exporter) isRead(name string) bool {
	v, ok := e.g.Lookup(name)
	if !ok || e.g.Values[v].Data == nil {
		return false
	}
	if e.uses == nil {
		e.uses = graph.NewUses(e.g)
	}
	return len(e.uses.Of(v)) > 0
}

// isTranspose reports whether an initializer was found to be the transpose of another.
func (e *exporter) isTranspose(name string) bool {
	return slices.ContainsFunc(e.list, func(c Change) bool {
		return c.Kind == Untied && (c.Value == name || slices.Contains(c.Names, name))
	})
}

// transposed reports whether y is the transpose of x. Most pairs differ in the first elements.
func transposed(x, y *graph.TensorData) bool {
	width := x.DType.Bits() / 8
	if x.DType != y.DType || width == 0 || x.Source == nil || y.Source == nil {
		return false
	}
	a, errA := x.Source.Bytes()
	b, errB := y.Source.Bytes()
	rows, columns := int(x.Dims[0]), int(x.Dims[1])
	if errA != nil || errB != nil || len(a) != len(b) || len(a) != rows*columns*width {
		return false
	}
	for i := range rows {
		for j := range columns {
			if !bytes.Equal(a[(i*columns+j)*width:][:width], b[(j*rows+i)*width:][:width]) {
				return false
			}
		}
	}
	return true
}
