package ortfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/onnx"
)

// Update is the formula of an optimizer model, with the attributes of its nodes.
type Update struct {
	Kind        string  // adamw or sgd
	Beta1       float64 // adamw; so are the next ones
	Beta2       float64
	Eps         float64
	WeightDecay float64
	MaxNorm     float64 // of all gradients; 0 if they are not clipped
}

// attribute is an attribute of a node of the optimizer model: where its value goes.
type attribute struct {
	name    string
	value   *float64
	without float64 // its default in the operator
}

// openUpdate reads an optimizer model, or returns nil if it is missing.
func openUpdate(path string) (*Update, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m, opened, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	u := &Update{}
	for _, n := range m.Graph.Nodes {
		if err := u.add(n); err != nil {
			return nil, fmt.Errorf("%s: node %q (%s): %w", path, m.Graph.NodeLabel(n.ID), n.Op, err)
		}
	}
	if u.Kind == "" {
		return nil, fmt.Errorf("%s has no optimizer; wanted a node AdamWOptimizer or SGDOptimizerV2", path)
	}
	return u, nil
}

// The rules of an AdamW node, by its attribute adam_mode: 0 is PyTorch's, 1 Hugging Face's.
const torchMode = 0

// add reads a node.
func (u *Update) add(n *graph.Node) error {
	read, known := readers[n.Op]
	if !known || n.Domain != "com.microsoft" {
		return errors.New("is no operator of onnxruntime-training's optimizers; wanted AdamWOptimizer, " +
			"SGDOptimizerV2 and InplaceClipGradNorm")
	}
	return read(u, n)
}

// readers read nodes by their operators' names.
var readers = map[string]func(u *Update, n *graph.Node) error{
	"InplaceClipGradNorm": func(u *Update, n *graph.Node) error {
		return attributes(n, attribute{"max_norm", &u.MaxNorm, 1})
	},
	"SGDOptimizerV2": func(u *Update, _ *graph.Node) error { return u.is("sgd") },
	"AdamWOptimizer": func(u *Update, n *graph.Node) error {
		var mode, correct float64
		err := errors.Join(u.is("adamw"), attributes(n, attribute{"alpha", &u.Beta1, 0.9},
			attribute{"beta", &u.Beta2, 0.999}, attribute{"epsilon", &u.Eps, 1e-8},
			attribute{"weight_decay", &u.WeightDecay, 0.01}, attribute{"adam_mode", &mode, torchMode},
			attribute{"correct_bias", &correct, 1}))
		if err == nil && (mode != torchMode || correct != 1) {
			err = fmt.Errorf("has adam_mode %v and correct_bias %v; memopt's adamw is that of PyTorch, adam_mode 0 "+
				"and correct_bias 1", mode, correct)
		}
		return err
	},
}

// is notes the optimizer; a second one is an error.
func (u *Update) is(kind string) error {
	if u.Kind != "" {
		return errors.New("is a second optimizer; wanted one")
	}
	u.Kind = kind
	return nil
}

// attributes reads the attributes of a node.
func attributes(n *graph.Node, list ...attribute) error {
	for _, a := range list {
		*a.value = a.without
		for i := range n.Attrs {
			if n.Attrs[i].Name != a.name {
				continue
			}
			switch v := n.Attrs[i].Value.(type) {
			case float32:
				*a.value = shortest(v)
			case int64:
				*a.value = float64(v)
			default:
				return fmt.Errorf("attribute %s is no number", a.name)
			}
		}
	}
	return nil
}

// Optimizer returns memopt's optimizer that computes the same. The learning rate is the caller's.
func (u *Update) Optimizer() autograd.Optimizer {
	return autograd.Optimizer{Kind: u.Kind, Beta1: u.Beta1, Beta2: u.Beta2, Eps: u.Eps,
		WeightDecay: u.WeightDecay, MaxNorm: u.MaxNorm}
}

// shortest returns the number that prints like a float32: 0.9, and not 0.8999999761581421, the number
// that was meant and that PyTorch computes with.
func shortest(v float32) float64 {
	d, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	if err != nil {
		return float64(v) // infinite or no number
	}
	return d
}
