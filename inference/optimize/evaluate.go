package optimize

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// evaluate computes constants with the CPU's kernels: all at once and, where that fails, one by one.
// Constants that cannot be computed are left alone: a run of the model would end at the same node,
// or run it elsewhere.
func (f *folder) evaluate(values []graph.ValueID, places []int, tensors []*graph.TensorData) error {
	if len(places) == 0 {
		return nil
	}
	all := make([]graph.ValueID, len(places))
	for i, at := range places {
		all[i] = values[at]
	}
	if found, err := f.session(all); err == nil {
		for i, at := range places {
			tensors[at] = found[i]
		}
		return nil
	} else if f.ended(err) {
		return err
	} else if len(places) == 1 {
		f.failed(all[0], err)
		return nil
	}
	for i, at := range places {
		found, err := f.session(all[i : i+1])
		switch {
		case err == nil:
			tensors[at] = found[0]
		case f.ended(err):
			return err
		default:
			f.failed(all[i], err)
		}
	}
	return nil
}

// ended reports whether an error says that the caller wants an end.
func (f *folder) ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// failed notes a constant that cannot be computed.
func (f *folder) failed(v graph.ValueID, err error) {
	f.leave(f.Maker(v), "its constants cannot be computed: %v", err)
}

// session runs the nodes that constants depend on.
func (f *folder) session(values []graph.ValueID) ([]*graph.TensorData, error) {
	m, err := f.excerpt(values)
	if err != nil {
		return nil, err
	}
	types, err := op.InferAsIs(m)
	if err != nil {
		return nil, err
	}
	s, err := executor.Open(f.run.ctx, m, types, cpu.Device{}, executor.Options{Threads: f.run.o.Threads})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Run(f.run.ctx); err != nil {
		return nil, err
	}
	tensors := make([]*graph.TensorData, len(values))
	for i, v := range values {
		t, want := s.Output(i), f.typeOf(v)
		dims := make([]int64, len(t.Shape))
		for k, d := range t.Shape {
			dims[k] = int64(d)
		}
		if t.DType != want.DType || !slices.Equal(dims, constDims(want.Shape)) {
			return nil, fmt.Errorf("it is %v, and the file says %v", t, want)
		}
		tensors[i] = &graph.TensorData{DType: t.DType, Dims: dims, Source: graph.Raw(slices.Clone(t.Data))}
	}
	return tensors, nil
}

// constDims are the dims of a shape of numbers.
func constDims(s graph.Shape) []int64 {
	dims := make([]int64, len(s.Dims))
	for i, d := range s.Dims {
		dims[i], _ = d.Const()
	}
	return dims
}

// excerpt is a model of the nodes that constants depend on; they are its outputs.
func (f *folder) excerpt(values []graph.ValueID) (*graph.Model, error) {
	m := &graph.Model{Path: f.run.m.Path, IRVersion: f.run.m.IRVersion, Opsets: f.run.m.Opsets,
		Graph: graph.New("constants", nil)}
	x := &excerpt{folder: f, g: m.Graph, done: map[graph.ValueID]bool{}}
	for _, v := range values {
		if err := x.take(v); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(x.nodes, func(a, b *graph.Node) int { return f.before(a, b) })
	for _, n := range x.nodes {
		c := *n
		c.Inputs, c.Outputs = x.named(n.Inputs), x.named(n.Outputs)
		c.SetRare(graph.Rare{})
		if err := m.Graph.AddNode(&c); err != nil {
			return nil, err
		}
	}
	for _, v := range values {
		out := m.Graph.Value(f.G.ValueName(v))
		if err := m.Graph.AddOutput(graph.Decl{Value: out}); err != nil {
			return nil, err
		}
	}
	return m, m.Graph.Seal()
}

// excerpt is a graph in the making.
type excerpt struct {
	*folder
	g     *graph.Graph
	done  map[graph.ValueID]bool
	nodes []*graph.Node
}

// take adds the nodes and values that a constant depends on.
func (x *excerpt) take(first graph.ValueID) error {
	todo := []graph.ValueID{first}
	taken := map[*graph.Node]bool{}
	for _, n := range x.nodes {
		taken[n] = true
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v == graph.NoValue || x.done[v] {
			continue
		}
		x.done[v] = true
		n := x.Maker(v)
		if n == nil {
			if err := x.hold(v, x.weight(v)); err != nil {
				return err
			}
			continue
		}
		if t := x.written(v); t != nil && len(n.Outputs) == 1 {
			if err := x.hold(v, t); err != nil {
				return err
			}
			continue
		}
		if !taken[n] {
			taken[n] = true
			x.nodes = append(x.nodes, n)
			todo = append(todo, n.Inputs...)
		}
	}
	return nil
}

// hold adds a constant that is known.
func (x *excerpt) hold(v graph.ValueID, t *graph.TensorData) error {
	if t == nil {
		return fmt.Errorf("value %q is no constant", x.G.ValueName(v))
	}
	data := *t
	data.Name, data.Wire = x.G.ValueName(v), nil
	_, err := x.g.AddInitializer(&data)
	return err
}

// named are the values of the excerpt that have the names of the graph's.
func (x *excerpt) named(list []graph.ValueID) []graph.ValueID {
	out := make([]graph.ValueID, len(list))
	for i, v := range list {
		out[i] = x.g.Value(x.G.ValueName(v))
	}
	return out
}

// before compares the places of nodes in the order.
func (f *folder) before(a, b *graph.Node) int { return f.Place(a) - f.Place(b) }
