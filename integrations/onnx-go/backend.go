package onnxgo

import (
	"math"

	"github.com/owulveryck/onnx-go"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	"gorgonia.org/tensor"
)

// Options has the parts of a file that onnx-go leaves out.
type Options struct {
	// Opset is the version of ONNX's operator set that the file imports. 0 means 13, the newest one
	// whose operators onnx-go's own tests use.
	Opset int64
	// Shapes are the shapes of inputs by name, as comma-separated formulas such as "batch, 3, 32, 32".
	// Inputs that are not listed have the shape of their tensor, where onnx-go leaves out the dims
	// that the file names by symbols.
	Shapes map[string]string
}

// Backend receives a model from onnx-go. It is a directed graph of gonum's where an edge leads from
// the output of a node to each of its operands, weighted by the operand's place; where a node reads one value twice,
// the graph has the edge of the last place, and the backend knows both.
type Backend struct {
	*simple.WeightedDirectedGraph
	options    Options
	nodes      []*Node // in the order that onnx-go made them
	operations []*operation
	inputs     []*Node
	outputs    []*Node
	bound      bool // inputs and outputs are known
}

// operation is a node of the model.
type operation struct {
	onnx.Operation
	results []*Node
}

// Node is a value of the model.
type Node struct {
	id       int64
	name     string
	value    tensor.Tensor // nil if it is not known
	made     bool          // an operation makes it
	operands []*Node       // of the operation that makes it; nil entries were left out
}

// New returns an empty backend, for one model.
func New(o Options) *Backend {
	return &Backend{WeightedDirectedGraph: simple.NewWeightedDirectedGraph(math.MaxFloat64, -1), options: o}
}

// ID is the node's number in the graph.
func (n *Node) ID() int64 { return n.id }

// SetName names the value.
func (n *Node) SetName(name string) { n.name = name }

// GetName returns the name of the value.
func (n *Node) GetName() string { return n.name }

// SetTensor gives the value contents.
func (n *Node) SetTensor(t tensor.Tensor) error {
	n.value = t
	return nil
}

// GetTensor returns the contents of the value: nil until they are computed.
func (n *Node) GetTensor() tensor.Tensor { return n.value }

// NewNode makes a node that is not part of the graph before AddNode.
func (b *Backend) NewNode() graph.Node { return &Node{id: int64(len(b.nodes))} }

// AddNode adds a node that NewNode made.
func (b *Backend) AddNode(n graph.Node) {
	b.WeightedDirectedGraph.AddNode(n)
	b.nodes = append(b.nodes, n.(*Node))
}

// SetWeightedEdge makes one node an operand of the operation that makes another one. The weight is
// the operand's place.
func (b *Backend) SetWeightedEdge(e graph.WeightedEdge) {
	from, to, slot := e.From().(*Node), e.To().(*Node), int(e.Weight())
	for len(from.operands) <= slot {
		from.operands = append(from.operands, nil)
	}
	from.operands[slot] = to
	if from != to { // an operator's result is never its operand, except between names left empty
		b.WeightedDirectedGraph.SetWeightedEdge(e)
	}
}

// ApplyOperation notes the operation that makes some nodes.
func (b *Backend) ApplyOperation(o onnx.Operation, results ...graph.Node) error {
	made := &operation{Operation: o}
	for _, n := range results {
		n.(*Node).made = true
		made.results = append(made.results, n.(*Node))
	}
	b.operations = append(b.operations, made)
	return nil
}

// Bind tells the backend which nodes are the inputs and outputs of the model that onnx-go has decoded
// into it.
func (b *Backend) Bind(decoded *onnx.Model) {
	b.inputs, b.outputs, b.bound = b.numbered(decoded.Input), b.numbered(decoded.Output), true
}

func (b *Backend) numbered(ids []int64) []*Node {
	list := make([]*Node, len(ids))
	for i, id := range ids {
		list[i] = b.nodes[id]
	}
	return list
}
