package planner_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner"
)

// naiveParts sums up what is live at a step of the graph that a plan's rewrite has written, by
// looking through all steps and values for every buffer.
type naiveParts struct {
	p      *planner.Plan
	m      *graph.Model
	origin []graph.NodeID
	roles  *live.Roles // of the graph as it is
	tl     *live.Timeline
	sizes  *live.Sizes
}

// clone reports whether the node at a place repeats another.
func (n *naiveParts) clone(at int) bool {
	for earlier := range at {
		if n.origin[earlier] == n.origin[at] {
			return true
		}
	}
	return false
}

func (n *naiveParts) backward(at int) bool { return n.p.Analysis.Backward[n.origin[at]] }

// behind reports whether the node at a place runs in the backward half.
func (n *naiveParts) behind(at int) bool { return n.backward(at) || n.clone(at) }

// shown returns the value that a value shows.
func (n *naiveParts) shown(v graph.ValueID) graph.ValueID {
	def := n.m.Graph.Values[v].Def
	if def == graph.NoNode {
		return v
	}
	node := n.m.Graph.Nodes[def]
	if !op.Of(node.Kind).View || node.Outputs[0] != v || node.Input(0) == graph.NoValue {
		return v
	}
	return n.shown(node.Input(0))
}

// gradient reports whether a value, or one that shows it, is a gradient.
func (n *naiveParts) gradient(v graph.ValueID) bool {
	for at, node := range n.m.Graph.Nodes {
		for slot, out := range node.Outputs {
			old := n.p.Analysis.Graph.Nodes[n.origin[at]].Outputs[slot]
			if out != graph.NoValue && n.shown(out) == v && n.roles.Gradient[old] {
				return true
			}
		}
	}
	return false
}

// readBy reports whether a node that is asked for reads a value, or one that shows it.
func (n *naiveParts) readBy(v graph.ValueID, asked func(at int) bool) bool {
	for at, node := range n.m.Graph.Nodes {
		for _, list := range [][]graph.ValueID{node.Inputs, node.Captures()} {
			for _, in := range list {
				if in != graph.NoValue && n.shown(in) == v && asked(at) {
					return true
				}
			}
		}
	}
	return false
}

// parts sums up one step.
func (n *naiveParts) parts(at int, always live.Parts) live.Parts {
	g, sum := n.m.Graph, always
	if n.sizes.Inner != nil {
		sum.Inner = n.sizes.Inner[at]
	}
	for root := range g.Values {
		r := n.tl.Ranges[root]
		if n.tl.Root[root] != graph.ValueID(root) || int(r.Start) > at || at >= int(r.End) {
			continue
		}
		lies := make([]graph.ValueID, max(n.sizes.Bytes[root], 0)) // by byte: the youngest value there
		for b := range lies {
			lies[b] = graph.NoValue
		}
		for i := range at + 1 {
			for _, out := range g.Nodes[i].Outputs {
				if out == graph.NoValue || n.tl.Root[out] != graph.ValueID(root) || n.shown(out) != out {
					continue
				}
				for b := range n.sizes.Bytes[out] {
					lies[n.tl.Begin(out)+b] = out
				}
			}
		}
		for len(lies) > 0 {
			v, run := lies[0], 1
			for run < len(lies) && lies[run] == v {
				run++
			}
			*n.partOf(&sum, v) += int64(run)
			lies = lies[run:]
		}
	}
	return sum
}

// partOf returns the part of a sum that a value is in; none is made yet of NoValue.
func (n *naiveParts) partOf(sum *live.Parts, v graph.ValueID) *int64 {
	if v == graph.NoValue {
		return &sum.Temporaries
	}
	maker, reader := int(n.m.Graph.Values[v].Def), n.behind
	if n.clone(maker) {
		reader = n.backward
	}
	switch {
	case n.gradient(v):
		return &sum.Gradients
	case !n.backward(maker) && n.readBy(v, reader):
		return &sum.Activations
	}
	return &sum.Temporaries
}

// checkSums holds what a plan says of its memory to its other figures.
func checkSums(t *testing.T, p *planner.Plan) {
	t.Helper()
	for _, side := range []struct {
		c  *live.Composition
		tl *live.Timeline
	}{{p.Before, p.Base}, {p.After, p.Planned}} {
		require.Equal(t, p.Persistent+side.tl.Peak.Bytes, side.c.Peak.Parts.Sum())
		require.Equal(t, side.tl.Peak.Node, side.c.Peak.Node)
		worst := int64(0)
		for _, m := range side.c.Phases {
			if m.Step >= 0 {
				require.Equal(t, p.Persistent+side.tl.Live[m.Step], m.Parts.Sum())
			}
			worst = max(worst, m.Parts.Sum())
		}
		require.Equal(t, worst, side.c.Peak.Parts.Sum())
	}
	at, gaps := p.AtPeak()
	require.GreaterOrEqual(t, gaps, int64(0))
	require.Equal(t, p.After.Peak.Parts.Inner, at.Inner)
	require.Equal(t, p.PeakRecord().TotalBytes, at.Sum()+gaps)
}

// What plans of drawn graphs say of their memory is what a look at every buffer says of the graphs
// that they are rewritten to.
func TestCompositionOfRandomGraphs(t *testing.T) {
	var clones, gradients, inner, updates int
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 71))
		m := smallTraining(rng, seed)
		if seed%4 != 0 {
			recordStates(t, m)
		}
		types, err := op.Infer(m)
		require.NoError(t, err)
		plain, err := planner.Make(m, types, planner.Options{})
		require.NoError(t, err)
		strategies := []planner.Strategy{nil, planner.Layerwise, planner.Budget{Share: 0.8, Effort: 0.02}}
		if drawn := randomPlacements(rng, plain); len(drawn) > 0 {
			strategies = append(strategies, &planner.PlanFile{Placements: drawn})
		}
		for _, s := range strategies {
			p, err := planner.Make(m, types, planner.Options{Strategy: s})
			if errors.Is(err, planner.ErrInfeasible) {
				continue
			}
			require.NoError(t, err)
			checkSums(t, p)
			rewritten, r := applied(t, p, seed)
			n := &naiveParts{p: p, m: rewritten, origin: r.Origin}
			n.roles = live.FindRoles(m.Graph, p.Sizes.States, p.Analysis.Backward, p.Analysis.Order)
			n.sizes, err = live.EvalSizes(rewritten.Graph, nil)
			require.NoError(t, err)
			n.sizes.States, err = live.FindStates(rewritten)
			require.NoError(t, err)
			again, err := op.Infer(rewritten)
			require.NoError(t, err)
			n.sizes.Failures = op.Failures(rewritten.Graph, again, graph.FileOrder(rewritten.Graph), nil)
			n.tl, err = live.Simulate(rewritten.Graph, graph.FileOrder(rewritten.Graph), n.sizes)
			require.NoError(t, err)
			for ph, moment := range p.After.Phases {
				if moment.Step < 0 {
					continue
				}
				require.Equal(t, n.parts(moment.Step, live.PersistentParts(m.Graph, p.Sizes, n.roles)), moment.Parts,
					"seed %d, phase %d, strategy %v", seed, ph, s)
				gradients += min(1, int(moment.Parts.Gradients))
				inner += min(1, int(moment.Parts.Inner))
				updates += ph / int(live.UpdatePhase)
			}
			clones += p.Recompute.Nodes
		}
	}
	require.Greater(t, clones, 50)
	require.Greater(t, gradients, 5)
	require.Greater(t, inner, 5)
	require.Greater(t, updates, 5)
}

// Workspaces, and what clones take besides values, are in the sums as well.
func TestCompositionWithWorkspaces(t *testing.T) {
	for _, name := range []string{"mlp", "transformer", "cnn"} {
		ex, _ := examples.Lookup(name)
		m, err := ex.Build()
		require.NoError(t, err)
		types, err := op.Infer(m)
		require.NoError(t, err)
		for _, batch := range []int64{1, 4, 7} {
			o := planner.Options{Dims: map[string]int64{"batch": batch, "seq": 16}, CloneBytes: 72,
				Workspace: make([]int64, len(m.Graph.Nodes))}
			for i := range o.Workspace {
				o.Workspace[i] = int64(i%3) * 1000
			}
			for _, s := range []planner.Strategy{nil, planner.Layerwise, planner.Budget{Share: 0.9, Effort: 0.01}} {
				o.Strategy = s
				p, err := planner.Make(m, types, o)
				if errors.Is(err, planner.ErrInfeasible) {
					continue
				}
				require.NoError(t, err)
				checkSums(t, p)
				for _, side := range []*live.Composition{p.Before, p.After} {
					for _, moment := range side.Phases {
						if moment.Step >= 0 {
							require.Equal(t, o.Workspace[moment.Node], moment.Parts.Workspace, name)
						}
					}
				}
			}
		}
	}
}

const stepNetText = `<ir_version: 8, opset_import: ["" : 17]>
net (T[8, 64] x, T[64, 256] w1, T[256] b1, T[256, 64] w2, T[64] scale, T[8, 64] target) => (T loss)
	<int64[1] axis = {0}> {
	a = MatMul(x, w1)  h = Add(a, b1)  r = Relu(h)  o = MatMul(r, w2)  v = Unsqueeze(scale, axis)  s = Mul(o, v)
	d = Sub(s, target)  e = Mul(d, d)  loss = ReduceMean<keepdims = 0>(e)
}`

// optimizedNet appends an optimizer to the training graph of a small network.
func optimizedNet(t *testing.T, dtype, lossScale string, o autograd.Optimizer) *autograd.Joint {
	t.Helper()
	text := strings.NewReplacer("T[", dtype+"[", "T loss", dtype+" loss").Replace(stepNetText)
	m, err := graph.Parse(text, "net")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "loss"}},
		Wrt: []string{"w1", "b1", "w2", "scale"}, LossScale: lossScale})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, o))
	return j
}

// In bytes: 64*256 + 256 + 256*64 + 64 parameters of 4 bytes each, and what the model reads besides:
// x, target and the axis.
const (
	netParameters = 4 * (64*256 + 256 + 256*64 + 64)
	netData       = 4*8*64 + 4*8*64 + 8
)

// The parts of steps whose memory can be told by hand.
func TestCompositionOfSteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     autograd.Optimizer
		state int64
	}{
		{"sgd", autograd.Optimizer{Kind: "sgd", LR: 0.1, WeightDecay: 0.01}, 0},
		{"momentum", autograd.Optimizer{Kind: "sgd", LR: 0.1, Momentum: 0.9}, netParameters},
		{"adam", autograd.Optimizer{Kind: "adam", LR: 0.1}, 2*netParameters + 8},
		{"adamw", autograd.Optimizer{Kind: "adamw", LR: 0.1, WeightDecay: 0.1}, 2*netParameters + 8},
		{"clipped", autograd.Optimizer{Kind: "adamw", LR: 0.1, MaxNorm: 1}, 2*netParameters + 8},
		{"kept", autograd.Optimizer{Kind: "adamw", LR: 0.1, KeepGrads: true}, 2*netParameters + 8},
	} {
		j := optimizedNet(t, "float", "", c.o)
		p, err := planner.Make(j.Model, j.Types, planner.Options{})
		require.NoError(t, err)
		checkSums(t, p)
		at := p.After.Peak.Parts
		require.Equal(t, c.state, at.State, c.name)
		constants := at.Weights - netParameters - netData
		require.True(t, 0 <= constants && constants < 200, "%s: %d bytes of constants", c.name, constants)
		update := p.After.Phases[live.UpdatePhase]
		require.GreaterOrEqual(t, update.Step, 0, c.name)
		require.Zero(t, p.After.Phases[live.ForwardPhase].Parts.Gradients, c.name)
		// With a norm of all gradients, and where gradients are outputs, all are there at the end;
		// otherwise the update of each ends it, and the largest is alone. A gradient that is kept is
		// not scaled in place.
		most := int64(4 * 256 * 64)
		switch {
		case c.o.MaxNorm != 0:
			most = netParameters
		case c.o.KeepGrads:
			most += netParameters
		}
		require.Equal(t, most, mostGradients(t, p), c.name)
	}
}

// mostGradients is the most bytes of gradients that are live at any step.
func mostGradients(t *testing.T, p *planner.Plan) (most int64) {
	t.Helper()
	g := p.Analysis.Graph
	roles := live.FindRoles(g, p.Sizes.States, p.Analysis.Backward, p.Analysis.Order)
	n := &naiveParts{p: p, m: p.Model, origin: graph.FileOrder(g), roles: roles, tl: p.Base, sizes: p.Sizes}
	for at := range g.Nodes {
		most = max(most, n.parts(at, live.Parts{}).Gradients)
	}
	return most
}

// The gradients that updates read are known without their names, and nothing else is taken for one.
func TestRolesOfSteps(t *testing.T) {
	for _, c := range []struct {
		dtype, scale string
		o            autograd.Optimizer
	}{
		{"float", "", autograd.Optimizer{Kind: "sgd", LR: 0.1}},
		{"float", "", autograd.Optimizer{Kind: "sgd", LR: 0.1, Momentum: 0.9, Nesterov: true, WeightDecay: 0.1}},
		{"double", "", autograd.Optimizer{Kind: "adam", WeightDecay: 0.1}},
		{"float", "", autograd.Optimizer{Kind: "adamw", LR: 0.1, MaxNorm: 1, WeightDecay: 0.1}},
		{"float16", "scale_of_loss", autograd.Optimizer{Kind: "adamw", LR: 0.1, MaxNorm: 1}},
	} {
		c.o.KeepGrads = true
		j := optimizedNet(t, c.dtype, c.scale, c.o)
		g := j.Model.Graph
		want := map[graph.ValueID]string{} // the gradients, by what the copies show
		for _, name := range j.Wrt {
			copied, ok := g.Lookup(name + autograd.GradSuffix)
			require.True(t, ok)
			want[g.Nodes[g.Values[copied].Def].Input(0)] = name
			g.Values[copied].Name = "copy of " + name
		}
		b, err := live.FindBoundary(j.Model)
		require.NoError(t, err)
		states, err := live.FindStates(j.Model)
		require.NoError(t, err)
		order := graph.FileOrder(g)
		roles := live.FindRoles(g, states, live.Split(g, b, order), order)
		for v, name := range want {
			require.True(t, roles.Gradient[v], "%+v: the gradient of %s", c.o, name)
		}
		for v := range g.Values {
			if !roles.Gradient[v] {
				continue
			}
			shape := g.Values[v].Type.Shape.String()
			require.Contains(t, []string{"[64, 256]", "[256]", "[256, 64]", "[64]", "[1, 64]"}, shape, g.Values[v].Name)
			def := g.Nodes[g.Values[v].Def]
			require.GreaterOrEqual(t, def.ID, j.Backward, g.Values[v].Name)
		}
		for _, name := range j.Wrt {
			next, _ := g.Lookup(name + autograd.NewSuffix)
			require.True(t, roles.Update[g.Values[next].Def], name)
			require.False(t, roles.Gradient[next], name)
		}
	}
}
