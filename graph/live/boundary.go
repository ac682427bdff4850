package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// BoundaryKind says how the end of the forward half was found.
type BoundaryKind string

const (
	// YieldBoundary is ORTModule's YieldOp, which hands the forward half's outputs
	// to the caller and takes their gradients back.
	YieldBoundary BoundaryKind = "yield"
	// RecordedBoundary is the record that memopt wrote into the model's metadata when it made or
	// rewrote the graph.
	RecordedBoundary BoundaryKind = "recorded"
	// LossBoundary is the node that makes the loss.
	LossBoundary BoundaryKind = "loss"
)

// Boundary is the node between the halves of a training graph.
type Boundary struct {
	Kind BoundaryKind
	Node graph.NodeID
	Loss graph.ValueID // the loss, or NoValue with a YieldOp
	// Backward is the first backward node of the file where a record says so, and all behind it are
	// backward, too; else NoNode.
	Backward graph.NodeID
}

// ErrNoBoundary means that a graph has no backward half, or that its backward half cannot be told
// apart from its forward half.
var ErrNoBoundary = errors.New("no boundary between a forward and a backward half: the graph has no YieldOp, no " +
	"recorded boundary, and no scalar loss beside nodes that read activations; memopt plans training graphs")

// BoundaryKey is the metadata key of a model's recorded boundary.
const BoundaryKey = "memopt.boundary"

// Recorded is the JSON under BoundaryKey.
type Recorded struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind"`
	Loss   string `json:"loss,omitempty"`
	Node   string `json:"node"`
	// Backward names the first backward node of the file; "" where the record does not say.
	Backward string `json:"backward,omitempty"`
}

// RecordedSchema is the schema of Recorded.
const RecordedSchema = "memopt.boundary/v1"

// Record returns the metadata entry that lets a later run find the same
// boundary.
func (b Boundary) Record(g *graph.Graph) string {
	r := Recorded{Schema: RecordedSchema, Kind: string(b.Kind), Loss: g.ValueName(b.Loss), Node: g.NodeLabel(b.Node)}
	if b.Backward != graph.NoNode {
		r.Backward = g.NodeLabel(b.Backward)
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("live: a struct of strings does not marshal: " + err.Error())
	}
	return string(text)
}

// FindBoundary returns the boundary of a model's main graph: its YieldOp, else the boundary that
// the metadata records, else the loss. Kinds must be bound and types inferred. The error is
// ErrNoBoundary, or describes the fault of a YieldOp or of the record.
func FindBoundary(m *graph.Model) (Boundary, error) {
	g := m.Graph
	b := Boundary{Node: graph.NoNode, Loss: graph.NoValue, Backward: graph.NoNode}
	for _, n := range g.Nodes {
		if !op.Of(n.Kind).Has(op.Yield) {
			continue
		}
		if b.Node != graph.NoNode {
			return b, fmt.Errorf("nodes %q and %q are both YieldOps; a training graph has one",
				g.NodeLabel(b.Node), g.NodeLabel(n.ID))
		}
		b.Kind, b.Node = YieldBoundary, n.ID
	}
	if b.Node != graph.NoNode {
		return b, nil
	}
	if text, ok := m.Meta(BoundaryKey); ok {
		return recordedBoundary(g, text)
	}
	return lossBoundary(g, false)
}

// recordedBoundary reads a record. The record of a YieldOp that has since been removed is ignored.
func recordedBoundary(g *graph.Graph, text string) (Boundary, error) {
	var r Recorded
	err := json.Unmarshal([]byte(text), &r)
	if err == nil && r.Schema == RecordedSchema && r.Kind == string(YieldBoundary) {
		return lossBoundary(g, true)
	}
	if err != nil || r.Schema != RecordedSchema {
		return Boundary{},
			fmt.Errorf("metadata %s: wanted JSON of schema %q, got %.80q; remove the entry to have the boundary "+
				"found anew", BoundaryKey, RecordedSchema, text)
	}
	id, ok := g.Lookup(r.Loss)
	if !ok || g.Values[id].Def == graph.NoNode {
		return Boundary{},
			fmt.Errorf("metadata %s: names the loss %q, which no node makes; remove the entry to have the boundary "+
				"found anew", BoundaryKey, r.Loss)
	}
	b := Boundary{Kind: RecordedBoundary, Node: g.Values[id].Def, Loss: id, Backward: graph.NoNode}
	if r.Backward == "" {
		return b, nil
	}
	for i := range g.Nodes {
		if g.NodeLabel(graph.NodeID(i)) == r.Backward {
			b.Backward = graph.NodeID(i)
			return b, nil
		}
	}
	return Boundary{}, fmt.Errorf("metadata %s: names the backward node %q, which is not there; remove the entry to "+
		"have the boundary found anew", BoundaryKey, r.Backward)
}

// lossBoundary looks for the loss among the scalar float outputs: the first one that comes from a
// loss operator where there is one, else the first. The output of an operator of backward halves is
// not a loss: it may be a weight of one element. A graph whose loss is no output has its last loss
// operator as boundary. Nodes beside the loss are a backward half where they make gradients, or where the
// graph is told to be a training graph: those of a forward model make metrics, such as an accuracy.
func lossBoundary(g *graph.Graph, told bool) (Boundary, error) {
	fromLoss, lastLoss := reachable(g, op.Loss)
	fromGradient, _ := reachable(g, op.Gradient)
	loss := graph.NoValue
	for _, d := range g.Outputs {
		v := &g.Values[d.Value]
		if v.Def == graph.NoNode || !isScalarFloat(v.Type) || fromGradient[v.Def] {
			continue
		}
		if lastLoss == graph.NoNode || fromLoss[v.Def] {
			loss = d.Value
			break
		}
	}
	if loss == graph.NoValue && lastLoss != graph.NoNode {
		loss = g.Nodes[lastLoss].Output(0)
	}
	if loss == graph.NoValue {
		return Boundary{}, ErrNoBoundary
	}
	b := Boundary{Kind: LossBoundary, Node: g.Values[loss].Def, Loss: loss, Backward: graph.NoNode}
	_, backward := b.split(g)
	if told && slices.Contains(backward, true) || makesGradients(g, backward) {
		return b, nil
	}
	return Boundary{}, ErrNoBoundary
}

func isScalarFloat(t graph.Type) bool {
	if t.Form != graph.FormTensor || !t.DType.IsFloat() || !t.Shape.Ranked {
		return false
	}
	n, ok := t.Shape.Elements().Const()
	return ok && n == 1 && t.Shape.Rank() <= 1
}

// reachable marks the nodes that an operator of a role leads to, itself included, and returns the
// last such operator.
func reachable(g *graph.Graph, role op.Role) (reached []bool, last graph.NodeID) {
	reached, last = make([]bool, len(g.Nodes)), graph.NoNode
	order, err := graph.Topological(g)
	if err != nil {
		return reached, last
	}
	for _, id := range order {
		if op.Of(g.Nodes[id].Kind).Has(role) {
			reached[id], last = true, id
		}
		g.EachProducer(id, func(p graph.NodeID) {
			reached[id] = reached[id] || reached[p]
		})
	}
	return reached, last
}

// Split marks the backward nodes of a graph: those of a record; with a YieldOp, those behind it in
// the order; otherwise those that the loss does not depend on and that read, directly or through
// others, values of the forward half, or that stand behind the loss. The boundary node itself is
// forward.
func Split(g *graph.Graph, b Boundary, order graph.Order) []bool {
	behind := make([]bool, len(g.Nodes))
	if b.Kind == RecordedBoundary && b.Backward != graph.NoNode {
		for i := int(b.Backward); i < len(behind); i++ {
			behind[i] = true
		}
		return behind
	}
	past := false
	for _, id := range order {
		behind[id] = past
		past = past || id == b.Node
	}
	if b.Kind == YieldBoundary {
		return behind
	}
	forward, backward := b.split(g)
	for i := range backward {
		backward[i] = backward[i] || behind[i] && !forward[i]
	}
	return backward
}

// split marks the nodes that the loss depends on, and those others that depend on them. Neither has
// the nodes that only read inputs and weights, for gradients.
func (b Boundary) split(g *graph.Graph) (forward, backward []bool) {
	forward = make([]bool, len(g.Nodes))
	stack := []graph.NodeID{b.Node}
	forward[b.Node] = true
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g.EachProducer(id, func(p graph.NodeID) {
			if !forward[p] {
				forward[p] = true
				stack = append(stack, p)
			}
		})
	}
	backward = make([]bool, len(g.Nodes))
	uses := graph.NewUses(g)
	for i, n := range g.Nodes {
		if !forward[i] {
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				stack = appendBackward(stack, uses.Of(v), forward, backward)
			}
		}
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, v := range g.Nodes[id].Outputs {
			if v != graph.NoValue {
				stack = appendBackward(stack, uses.Of(v), forward, backward)
			}
		}
	}
	return forward, backward
}

// appendBackward marks the readers that are not forward and pushes those
// marked for the first time.
func appendBackward(stack []graph.NodeID, uses []graph.Use, forward, backward []bool) []graph.NodeID {
	for _, u := range uses {
		if !forward[u.Node] && !backward[u.Node] {
			backward[u.Node] = true
			stack = append(stack, u.Node)
		}
	}
	return stack
}
