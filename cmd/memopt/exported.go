package main

import (
	"fmt"

	"memopt/graph/roles"
)

// keepsParameters says how PyTorch writes a file with each parameter of the program.
const keepsParameters = "torch.onnx.export(..., dynamo=True, optimize=False) keeps each parameter of the program"

// keepsTies advises how each exporter of PyTorch writes a file with tied weights.
const keepsTies = "torch.onnx.export with optimize=False, or do_constant_folding=False with dynamo=False, keeps them"

// noteExported says in one line each how the exporter changed the program.
func (a *app) noteExported(list []roles.Change) {
	for _, c := range list {
		n := len(c.Names)
		switch c.Kind {
		case roles.Merged:
			a.warn("%q stands for %s of the program (%s), which were equal when it was exported, "+
				"and train as one; %s", c.Value, count(n, "more parameter", "more parameters"), someOf(c.Names),
				keepsParameters)
		case roles.Untied:
			a.warn("%q is the transpose of %q, and they train apart; %s tied", c.Names[0], c.Value, keepsTies)
		case roles.Apart:
			a.warn("%s computed of %q by the exporter (%s), and they train apart; %s",
				count(n, "initializer was", "initializers were"), c.Value, someOf(c.Names), keepsParameters)
		case roles.Dropped:
			a.warn("the exporter left out %s of zeros (%s), which do not train; %s", count(n, "bias", "biases"),
				someOf(c.Names), keepsParameters)
		case roles.Folded:
			a.note("no tensor of their own in the file: %s of the PyTorch program (%s); the program shares them, or "+
				"the exporter folded them into others; %s", roles.Parameter.Count(n), someOf(c.Names), keepsParameters)
		case roles.Frozen:
			a.note("%s in inference mode (%s): running statistics are constants; torch.onnx.export(..., "+
				"dynamo=False, training=TrainingMode.TRAINING) writes the mode of training",
				count(n, "node BatchNormalization is", "nodes BatchNormalization are"), someOf(c.Names))
		case roles.FoldedNorms:
			a.warn("the exporter folded %s into the weights before (%s): they do not train; "+
				"torch.onnx.export(..., dynamo=False, training=TrainingMode.TRAINING) keeps them",
				count(n, "batch norm", "batch norms"), someOf(c.Names))
		case roles.Computed:
			were, their := "was", "its"
			if n > 1 {
				were, their = "were", "their"
			}
			a.warn("%s of the program (%s) %s computed into others by the exporter, which train in %s place; %s",
				roles.Parameter.Count(n), someOf(c.Names), were, their, keepsParameters)
		}
	}
}

// count is a number of things, such as "3 biases".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
