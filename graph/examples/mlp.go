package examples

import (
	"fmt"

	"memopt/graph"
)

// MLPOptions describes a multilayer perceptron. A zero field stands for its default.
type MLPOptions struct {
	Layers  int // hidden layers; default 8
	Inputs  int // features; default 1024
	Hidden  int // width; default 2048
	Classes int // default 1000
}

func (o MLPOptions) withDefaults() (MLPOptions, error) {
	setDefault(&o.Layers, 8)
	setDefault(&o.Inputs, 1024)
	setDefault(&o.Hidden, 2048)
	setDefault(&o.Classes, 1000)
	return o, checkSizes("mlp",
		[]size{{"Layers", o.Layers}, {"Inputs", o.Inputs}, {"Hidden", o.Hidden}, {"Classes", o.Classes}})
}

// MLP returns the training graph of a classifier: Gemm and Gelu per hidden
// layer, a last Gemm, and the mean cross entropy. Inputs: x float[batch, Inputs] and
// labels int64[batch], then weights [out, in] and biases. Outputs: the loss,
// then the gradients of all weights. All operators are ONNX's own, and there is no YieldOp: the
// loss separates forward from backward.
func MLP(o MLPOptions) (*graph.Model, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := newTape(newBuilder("mlp", graph.Opset{Version: onnxVersion}))
	x := t.data("x", graph.Float32, dims("batch", o.Inputs))
	labels := t.data("labels", graph.Int64, dims("batch"))
	in := o.Inputs
	for i := range o.Layers {
		x = t.module(fmt.Sprintf("layers.%d", i), x, in, o.Hidden)
		x = t.geluErf(fmt.Sprintf("/act.%d", i), x)
		in = o.Hidden
	}
	t.standardLoss(t.module("head", x, in, o.Classes), labels, o.Classes)
	return t.finish()
}

// module is a torch.nn.Linear of two-dimensional data.
func (t *tape) module(name string, x *value, in, out int) *value {
	w := t.weight(name+".weight", graph.Float32, out, in)
	bias := t.weight(name+".bias", graph.Float32, out)
	return t.gemm(scopeOf(name)+"/Gemm", x, w, bias)
}
