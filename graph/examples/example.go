package examples

import (
	"maps"
	"slices"
	"strings"

	"memopt/graph"
)

// Prefix begins the paths of built-in models: "example:mlp".
const Prefix = "example:"

// Example is a built-in training graph.
type Example struct {
	Name    string
	Summary string           // one line for people
	Dims    map[string]int64 // default bindings
	// Train names the example that stands for this one where it is trained, so that a first try
	// takes seconds; "" means this one.
	Train string
	Build func() (*graph.Model, error)
}

// all lists the examples by name. The default bindings make the activations of each at least a few
// hundred MiB, so that there is something to plan.
var all = []Example{
	{
		Name: "cnn",
		Summary: "residual convolutional network with batch normalization, YieldOp and ONNX Runtime's gradient " +
			"operators",
		Dims:  map[string]int64{"batch": 256},
		Build: func() (*graph.Model, error) { return CNN(CNNOptions{}) },
	},
	{
		Name:    "mlp",
		Summary: "multilayer perceptron with the loss inside, forward and backward in ONNX's own operators",
		Dims:    map[string]int64{"batch": 8192},
		Build:   func() (*graph.Model, error) { return MLP(MLPOptions{}) },
	},
	{
		Name:    "transformer",
		Summary: "GPT-like decoder as ORTModule trains it: YieldOp, dropout, ONNX Runtime's gradient operators",
		Dims:    map[string]int64{"batch": 8, "seq": 512},
		Train:   "transformer-small",
		Build:   func() (*graph.Model, error) { return Transformer(TransformerOptions{}) },
	},
	{
		Name:    "transformer-fp16",
		Summary: "the same decoder in mixed precision: float16 products, casts to float32 around norms and softmax",
		Dims:    map[string]int64{"batch": 8, "seq": 512},
		Build:   func() (*graph.Model, error) { return Transformer(TransformerOptions{Half: true, FastGelu: true}) },
	},
	{
		Name:    "transformer-small",
		Summary: "the same decoder for a first training job: 4 layers 192 wide, and bytes for tokens",
		Dims:    map[string]int64{"batch": 8, "seq": 128},
		Build: func() (*graph.Model, error) {
			return Transformer(TransformerOptions{Hidden: 192, Heads: 6, Vocab: 256, Positions: 256})
		},
	},
}

func (e Example) clone() Example {
	e.Dims = maps.Clone(e.Dims)
	return e
}

// All returns the examples, sorted by name.
func All() []Example {
	list := make([]Example, len(all))
	for i, e := range all {
		list[i] = e.clone()
	}
	return list
}

// Lookup returns the example with the given name.
func Lookup(name string) (Example, bool) {
	i, ok := slices.BinarySearchFunc(all, name, func(e Example, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !ok {
		return Example{}, false
	}
	return all[i].clone(), true
}
