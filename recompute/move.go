package recompute

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// ErrMove is wrapped by the error of a move that a graph and its order do not allow.
var ErrMove = errors.New("a value cannot be moved")

// Move is a stay of a value on the host. Nodes are those before which something happens, in an order of the
// graph in which they follow each other as the fields do; two of them may be the same node.
type Move struct {
	Value graph.ValueID
	// Offload: the copy to the host begins. NoNode for a further stay of a value whose copy is there from
	// the stay before.
	Offload graph.NodeID
	// Free: the copy has been waited for, and the value's memory on the device is free.
	Free graph.NodeID
	// Reload: the copy back begins, and takes memory on the device.
	Reload graph.NodeID
	// Wait: the copy back has been waited for. All readers from this one on read it.
	Wait graph.NodeID
	// Turn is the place of its copy back among those that begin before one node: those with a smaller one begin
	// before it. Copies of one turn keep the sequence of the moves.
	Turn int
}

// Moved is the outcome of MoveValues.
type Moved struct {
	Model *graph.Model
	// Origin maps every node of the new graph to its node in the old one, clones of views, too; those that copy
	// and wait to NoNode.
	Origin []graph.NodeID
}

// Suffixes of the names of values that copies make, with a number from the second copy on.
const (
	hostSuffix   = "_host"
	reloadSuffix = "_reload"
)

// MoveValues returns a copy of the model whose nodes stand in the given order, with values that move to the
// host's memory and back (Offload, Wait, Reload). Before one node, copies to the host come first,
// then the waits for those, then the copies back and the waits for those, each in the sequence of the moves but for
// copies back, which have turns.
// Views of a value that nodes read behind its stay are made anew of the copy that comes back.
//
// The error wraps ErrMove: a node reads the value, or a view of it, while it is away, for example.
func MoveValues(m *graph.Model, order graph.Order, moves []Move) (*Moved, error) {
	if err := order.Check(m.Graph); err != nil {
		return nil, err
	}
	w := &mover{old: m.Graph, out: &Moved{Model: m.Clone()}, names: graph.NewNames(m), pos: order.Positions(),
		uses: graph.NewUses(m.Graph), copies: map[graph.ValueID]*hostCopy{},
		before: make([][4][]int, len(m.Graph.Nodes))}
	w.g = w.out.Model.Graph
	w.newest.Reset(len(m.Graph.Values))
	for i := range moves {
		if err := w.check(moves, i); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrMove, m.Graph.ValueName(moves[i].Value), err)
		}
	}
	for _, id := range order {
		for step, list := range w.before[id] {
			if step == 2 {
				slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(moves[a].Turn, moves[b].Turn) })
			}
			for _, i := range list {
				w.step(step, &moves[i])
			}
		}
		n := w.g.Nodes[id]
		n.Inputs = w.newest.Rewire(n.Inputs, len(n.Inputs))
		w.append(n, id)
	}
	w.g.SetNodes(w.nodes)
	if len(moves) > 0 {
		op.Import(w.out.Model, op.DomainMemopt)
	}
	err := graph.Verify(w.out.Model)
	if err == nil {
		err = w.names.Verify(w.out.Model)
	}
	if err == nil {
		err = live.CheckCopies(w.g)
	}
	if err != nil {
		return nil, fmt.Errorf("the graph with moves is invalid: %w", err)
	}
	return w.out, nil
}

// mover makes the nodes of a graph with moves.
type mover struct {
	old, g *graph.Graph // as it is, and the copy that is edited
	out    *Moved
	names  *graph.Names
	pos    []int32
	uses   *graph.Uses
	before [][4][]int // by node: the moves whose copy to the host, wait, copy back and wait come before it
	newest Versions   // of the old values: those that readers read
	copies map[graph.ValueID]*hostCopy
	nodes  []*graph.Node
}

// hostCopy is a value's copy on the host.
type hostCopy struct {
	begun, there graph.ValueID // the outputs of Offload and of its Wait
	coming       graph.ValueID // the output of the newest Reload
}

// check holds a move to the order, and notes its steps.
func (w *mover) check(moves []Move, i int) error {
	m := &moves[i]
	v, g := m.Value, w.old
	if v < 0 || int(v) >= len(g.Values) {
		return fmt.Errorf("there is no value %d", v)
	}
	if g.Values[v].Def == graph.NoNode {
		return errors.New("it is an input or a weight")
	}
	if op.Of(g.Nodes[g.Values[v].Def].Kind).Transfer != op.NoTransfer {
		return errors.New("it is a copy itself")
	}
	if op.Of(g.Nodes[g.Values[v].Def].Kind).Pending {
		return errors.New("an operation of several ranks may be under way in its memory")
	}
	for _, d := range g.Outputs {
		if w.shows(d.Value, v) {
			return errors.New("it is an output of the graph, or a view of it is")
		}
	}
	steps := [4]graph.NodeID{m.Offload, m.Free, m.Reload, m.Wait}
	at := w.pos[g.Values[v].Def] + 1
	if m.Offload == graph.NoNode {
		last := -1
		for k, b := range moves[:i] {
			if b.Value == v {
				last = k
			}
		}
		if last < 0 {
			return errors.New("it has no copy on the host: no move before this one begins one")
		}
		at = w.pos[moves[last].Wait] + 1
	} else if slices.ContainsFunc(moves[:i], func(b Move) bool { return b.Value == v }) {
		return errors.New("it has a copy on the host already")
	}
	for k, id := range steps {
		if k == 0 && id == graph.NoNode {
			continue
		}
		if id < 0 || int(id) >= len(g.Nodes) {
			return fmt.Errorf("there is no node %d", id)
		}
		if w.pos[id] < at {
			return fmt.Errorf("its steps are out of order before node %q", g.NodeLabel(id))
		}
		at = w.pos[id]
		if k == 1 && m.Offload == graph.NoNode {
			continue // there is no copy to wait for
		}
		w.before[id][k] = append(w.before[id][k], i)
	}
	return w.eachReader(v, func(u graph.Use) error {
		p := w.pos[u.Node]
		switch {
		case w.pos[m.Free] <= p && p < w.pos[m.Wait]:
			return fmt.Errorf("node %q reads it, or a view of it, while it is away", g.NodeLabel(u.Node))
		case u.Slot == graph.Captured && p >= w.pos[m.Free]:
			return fmt.Errorf("a subgraph of node %q reads it behind its stay on the host", g.NodeLabel(u.Node))
		}
		return nil
	})
}

// eachReader calls f for the uses of a value and of its views, but for the nodes that make views.
func (w *mover) eachReader(v graph.ValueID, f func(graph.Use) error) error {
	for _, u := range w.uses.Of(v) {
		n := w.old.Nodes[u.Node]
		if shown := w.view(n); u.Slot == 0 && shown != graph.NoValue {
			if err := w.eachReader(shown, f); err != nil {
				return err
			}
			continue
		}
		if err := f(u); err != nil {
			return err
		}
	}
	return nil
}

// view returns the output of a node that shows its input 0, or NoValue.
func (w *mover) view(n *graph.Node) graph.ValueID {
	if info := op.Of(n.Kind); info.View && info.Transfer == op.NoTransfer {
		return n.Output(0)
	}
	return graph.NoValue
}

// shows reports whether a value is another one or a view of it.
func (w *mover) shows(v, of graph.ValueID) bool {
	for v != of {
		def := w.old.Values[v].Def
		if def == graph.NoNode || w.view(w.old.Nodes[def]) != v {
			return false
		}
		v = w.old.Nodes[def].Inputs[0]
	}
	return true
}

// step writes one of the four steps of a move.
func (w *mover) step(k int, m *Move) {
	c := w.copies[m.Value]
	name := w.old.ValueName(m.Value)
	switch k {
	case 0:
		w.copies[m.Value] = &hostCopy{begun: w.add(op.Offload, name+hostSuffix, m.Value, m.Value)}
	case 1:
		c.there = w.add(op.Wait, name+hostSuffix+"_there", m.Value, c.begun, m.Value)
	case 2:
		c.coming = w.add(op.Reload, name+reloadSuffix, m.Value, c.there)
	case 3:
		w.newest.Set(m.Value, w.add(op.Wait, name+reloadSuffix+"_there", m.Value, c.coming, c.there))
		w.renew(m.Value, w.pos[m.Wait])
	}
}

// renew makes those views of a value anew that were made before a place and have readers from there on.
func (w *mover) renew(v graph.ValueID, at int32) {
	for _, u := range w.uses.Of(v) {
		n := w.old.Nodes[u.Node]
		shown := w.view(n)
		if u.Slot != 0 || shown == graph.NoValue || w.pos[u.Node] >= at {
			continue
		}
		late := false
		w.eachReader(shown, func(r graph.Use) error {
			late = late || w.pos[r.Node] >= at
			return nil
		})
		if !late {
			continue
		}
		src := w.g.Nodes[u.Node]
		out := w.value(w.old.ValueName(shown)+reloadSuffix, shown)
		c := &graph.Node{Name: w.names.Node(w.old.NodeLabel(u.Node) + reloadSuffix), Op: src.Op, Domain: src.Domain,
			Kind: src.Kind, Version: src.Version, Attrs: slices.Clone(src.Attrs), Outputs: []graph.ValueID{out},
			Inputs: slices.Clone(w.newest.Rewire(n.Inputs, len(n.Inputs)))}
		rare := src.Rare()
		c.SetRare(graph.Rare{Overload: rare.Overload, Metadata: slices.Clone(rare.Metadata), Devices: rare.Devices,
			Extra: rare.Extra})
		w.append(c, u.Node)
		w.newest.Set(shown, out)
		w.renew(shown, at)
	}
}

// add appends a node of memopt's own and returns its output, which is named and has the type of a value.
func (w *mover) add(k graph.Kind, name string, like graph.ValueID, in ...graph.ValueID) graph.ValueID {
	info := op.Of(k)
	out := w.value(name, like)
	n := &graph.Node{Name: w.names.Node(w.g.ValueName(out)), Op: info.Name, Domain: info.Domain, Kind: k, Inputs: in,
		Outputs: []graph.ValueID{out}}
	if def := w.old.Values[like].Def; def != graph.NoNode {
		n.InheritStages(w.old.Nodes[def])
	}
	w.append(n, graph.NoNode)
	return out
}

// value adds a value with the type of another.
func (w *mover) value(name string, like graph.ValueID) graph.ValueID {
	id := w.g.Value(w.names.Value(name))
	t := w.old.Values[like].Type
	w.g.Values[id].Type = t
	if t.Form == graph.FormTensor && t.DType != graph.Undefined {
		w.g.ValueInfo = append(w.g.ValueInfo, graph.Decl{Value: id, Type: t})
	}
	return id
}

func (w *mover) append(n *graph.Node, origin graph.NodeID) {
	w.nodes = append(w.nodes, n)
	w.out.Origin = append(w.out.Origin, origin)
}
