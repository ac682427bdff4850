package pytorch

import (
	"encoding/json"
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
)

// handover is the node between the halves of a plan of operators.
const handover = "the backward half begins"

// operatorsDomain is the domain of PyTorch's operators in the graph of a plan.
const operatorsDomain = "torch"

// operatorPlan is a plan of operators (docs/schemas/operator-plan.schema.json), as far as it is a graph.
type operatorPlan struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Model   string `json:"model"`
	Held    []struct {
		Name  string `json:"name"`
		Bytes int64  `json:"bytes"`
	} `json:"held"`
	Graphs []struct {
		Instance struct {
			Nodes []operatorNode `json:"nodes"`
		} `json:"instance"`
		Steps []operatorStep `json:"steps"`
	} `json:"graphs"`
}

// operatorVersion is the version of the format.
const operatorVersion = 1

// operatorStep computes a node, or frees a value.
type operatorStep struct {
	Compute string `json:"compute"`
	Free    string `json:"free"`
}

type operatorNode struct {
	ID        string          `json:"id"`
	Size      int64           `json:"size"`
	Inputs    []string        `json:"inputs"`
	Outputs   []operatorValue `json:"outputs"`
	Workspace int64           `json:"workspace"`
	Tags      struct {
		Op     string `json:"op"`
		Module string `json:"module"`
	} `json:"tags"`
}

type operatorValue struct {
	ID   string `json:"id"`
	Size int64  `json:"size"`
}

// values are the results of a node.
func (n *operatorNode) values() []operatorValue {
	if n.Outputs == nil {
		return []operatorValue{{n.ID, n.Size}}
	}
	return n.Outputs
}

// OperatorGraph reads a plan of the operators of a PyTorch step as a training graph: its nodes are the computations
// of the schedule, in their order, with recomputations as nodes of their own, so that the live bytes at each are
// the plan's. Values are runs of bytes; a workspace is an output without readers. The error names the fault of the
// file.
func OperatorGraph(data []byte) (*graph.Model, error) {
	var p operatorPlan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("is no plan of operators: %w", err)
	}
	if p.Version != operatorVersion {
		return nil, fmt.Errorf("is a plan of operators of version %d, wanted %d", p.Version, operatorVersion)
	}
	if len(p.Graphs) != 1 {
		return nil, fmt.Errorf("is a plan of %d graphs, wanted one: the model has graph breaks", len(p.Graphs))
	}
	b := &operatorBuilder{g: graph.New(p.Model, nil), nodes: map[string]*operatorNode{},
		now: map[string]graph.ValueID{}, runs: map[string]int{}, names: map[string]int{}}
	for _, h := range p.Held {
		if h.Bytes < 0 {
			return nil, fmt.Errorf("%q has %d bytes", h.Name, h.Bytes)
		}
		d := graph.Decl{Value: b.value("held/"+h.Name, h.Bytes), Type: bytesType(h.Bytes)}
		if err := b.g.AddInput(d); err != nil {
			return nil, err
		}
	}
	for i := range p.Graphs[0].Instance.Nodes {
		n := &p.Graphs[0].Instance.Nodes[i]
		b.nodes[n.ID] = n
	}
	for i, s := range p.Graphs[0].Steps {
		var err error
		if s.Free != "" {
			delete(b.now, s.Free)
		} else {
			err = b.compute(s.Compute)
		}
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return b.model()
}

// operatorBuilder makes the graph of a plan.
type operatorBuilder struct {
	g        *graph.Graph
	nodes    map[string]*operatorNode
	now      map[string]graph.ValueID // by value: the one that was made last
	runs     map[string]int           // by node
	names    map[string]int           // by name: how many values have asked for it
	loss     string                   // a value of the handover
	between  string                   // the handover's node
	backward string                   // the first node behind it
}

func bytesType(n int64) graph.Type { return graph.Tensor(graph.Uint8, graph.Ints(n)) }

// value makes a value of a name that no other has.
func (b *operatorBuilder) value(name string, size int64) graph.ValueID {
	unique := name
	for b.names[unique] > 0 {
		b.names[name]++
		unique = fmt.Sprintf("%s_%d", name, b.names[name])
	}
	b.names[unique]++
	v := b.g.Value(unique)
	b.g.Values[v].Type = bytesType(size)
	b.g.ValueInfo = append(b.g.ValueInfo, graph.Decl{Value: v, Type: bytesType(size)})
	return v
}

// compute adds a run of a node.
func (b *operatorBuilder) compute(id string) error {
	n := b.nodes[id]
	if n == nil {
		return fmt.Errorf("computes %q, which is no node", id)
	}
	suffix := ""
	if b.runs[id]++; b.runs[id] == 2 {
		suffix = "_recompute"
	} else if b.runs[id] > 2 {
		suffix = fmt.Sprintf("_recompute_%d", b.runs[id]-1)
	}
	node := &graph.Node{Name: id + suffix, Op: n.Tags.Op, Domain: operatorsDomain}
	if n.Tags.Module != "" {
		node.Name = n.Tags.Module + "/" + node.Name
	}
	if node.Op == "" {
		node.Op = "Handover"
	}
	for _, in := range n.Inputs {
		v, ok := b.now[in]
		if !ok {
			return fmt.Errorf("%q reads %q, which is not there", id, in)
		}
		node.Inputs = append(node.Inputs, v)
	}
	outputs := n.values()
	for _, o := range outputs {
		if o.Size < 0 {
			return fmt.Errorf("%q has %d bytes", o.ID, o.Size)
		}
		v := b.value(o.ID+suffix, o.Size)
		node.Outputs = append(node.Outputs, v)
		if _, there := b.now[o.ID]; !there {
			b.now[o.ID] = v
		}
	}
	if n.Workspace < 0 {
		return fmt.Errorf("%q has a workspace of %d bytes", id, n.Workspace)
	}
	if n.Workspace > 0 {
		node.Outputs = append(node.Outputs, b.value("workspace of "+node.Name, n.Workspace))
	}
	switch {
	case id == handover:
		if len(outputs) > 0 {
			b.loss = b.g.ValueName(node.Outputs[0])
		}
		b.between = node.Name
	case b.between != "" && b.backward == "":
		b.backward = node.Name
	}
	return b.g.AddNode(node)
}

// model ends the graph: the values live at the end are its outputs.
func (b *operatorBuilder) model() (*graph.Model, error) {
	if b.loss == "" || b.backward == "" {
		return nil, fmt.Errorf("has no step %q with a backward half behind it", handover)
	}
	left := map[graph.ValueID]bool{}
	for _, v := range b.now {
		left[v] = true
	}
	for i := range b.g.Values {
		if v := graph.ValueID(i); left[v] {
			if err := b.g.AddOutput(graph.Decl{Value: v, Type: b.g.Values[v].Type}); err != nil {
				return nil, err
			}
		}
	}
	if err := b.g.Seal(); err != nil {
		return nil, err
	}
	m := &graph.Model{IRVersion: 10, ProducerName: "memopt", Graph: b.g,
		Opsets: []graph.Opset{{Domain: "", Version: 20}, {Domain: operatorsDomain, Version: 1}}}
	record, err := json.Marshal(live.Recorded{Schema: live.RecordedSchema, Kind: string(live.RecordedBoundary),
		Loss: b.loss, Node: b.between, Backward: b.backward})
	if err != nil {
		return nil, err
	}
	m.SetMeta(live.BoundaryKey, string(record))
	return m, nil
}
