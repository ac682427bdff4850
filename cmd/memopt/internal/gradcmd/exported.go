package gradcmd

import (
	"fmt"

	"memopt/cmd/memopt/internal/cli"
	"memopt/graph/roles"
)

// KeepsParameters says how PyTorch writes a file with each parameter of the program.
const KeepsParameters = "torch.onnx.export(..., dynamo=True, optimize=False) keeps each parameter of the program"

// KeepsTies advises how each exporter of PyTorch writes a file with tied weights.
const KeepsTies = "torch.onnx.export with optimize=False, or do_constant_folding=False with dynamo=False, keeps them"

// noteExported says in one line each how the exporter changed the program.
func noteExported(a *cli.App, list []roles.Change) {
	for _, c := range list {
		n := len(c.Names)
		switch c.Kind {
		case roles.Merged:
			a.Warn("%q stands for %s of the program (%s), which were equal when it was exported, "+
				"and train as one; %s", c.Value, Count(n, "more parameter", "more parameters"), SomeOf(c.Names),
				KeepsParameters)
		case roles.Untied:
			a.Warn("%q is the transpose of %q, and they train apart; %s tied", c.Names[0], c.Value, KeepsTies)
		case roles.Apart:
			a.Warn("%s computed of %q by the exporter (%s), and they train apart; %s",
				Count(n, "initializer was", "initializers were"), c.Value, SomeOf(c.Names), KeepsParameters)
		case roles.Dropped:
			a.Warn("the exporter left out %s of zeros (%s), which do not train; %s", Count(n, "bias", "biases"),
				SomeOf(c.Names), KeepsParameters)
		case roles.Folded:
			a.Note("no tensor of their own in the file: %s of the PyTorch program (%s); the program shares them, or "+
				"the exporter folded them into others; %s", roles.Parameter.Count(n), SomeOf(c.Names), KeepsParameters)
		case roles.Frozen:
			a.Note("%s in inference mode (%s): running statistics are constants; torch.onnx.export(..., "+
				"dynamo=False, training=TrainingMode.TRAINING) writes the mode of training",
				Count(n, "node BatchNormalization is", "nodes BatchNormalization are"), SomeOf(c.Names))
		case roles.FoldedNorms:
			a.Warn("the exporter folded %s into the weights before (%s): they do not train; "+
				"torch.onnx.export(..., dynamo=False, training=TrainingMode.TRAINING) keeps them",
				Count(n, "batch norm", "batch norms"), SomeOf(c.Names))
		case roles.Computed:
			were, their := "was", "its"
			if n > 1 {
				were, their = "were", "their"
			}
			a.Warn("%s of the program (%s) %s computed into others by the exporter, which train in %s place; %s",
				roles.Parameter.Count(n), SomeOf(c.Names), were, their, KeepsParameters)
		}
	}
}

// Count is a number of things, such as "3 biases".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
