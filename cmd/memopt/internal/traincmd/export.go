package traincmd

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/view/report"
)

func Export(a *cli.App) *cobra.Command {
	var out, model, external, moments string
	cmd := &cobra.Command{
		Use:   "export CHECKPOINT -o OUT",
		Short: "Write the forward model with the weights of a training job's checkpoint",
		Long: `export reads the forward model that a job has trained and writes it with the
trained weights and running statistics of a checkpoint. All else stays as it
is in the model's file: frozen weights, inputs, outputs and nodes. Parameters
that are inputs of the model become initializers.

CHECKPOINT is a job's folder, for its newest checkpoint, or the folder of one
checkpoint. The checkpoint says where the model is; --model names another
place. The model must be the one that was trained: its structure and its frozen
weights are compared with the checkpoint's hashes. A job that has trained a
training graph, as example:transformer is one, needs --model with a forward
model that has the same weights by name.`,
		Example: `  memopt export job -o model.onnx
        the newest weights of the job
  memopt export job/checkpoints/step-500 -o model.onnx
        those of one step
  memopt export job -o model.onnx --model moved/forward.onnx --external-data 1MiB
        a model that has moved, with large weights in model.onnx.data
  memopt export job -o model.onnx --moments moments.safetensors
        the moments of --optimizer adamw8bit, too, in float32`,
		Args: exactCheckpoint,
		RunE: func(_ *cobra.Command, args []string) error {
			return exportWeights(a, args[0], model, out, external, moments)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "out", "o", "", "where to write the model; - is standard output")
	f.StringVar(&model, "model", "", "the forward model, where it is not the one that the checkpoint names")
	f.StringVar(&external, "external-data", "", "move tensors of at least this size to OUT.data, for example 1MiB")
	f.StringVar(&moments, "moments", "", "also write the optimizer's states to this file of safetensors, in float32: "+
		"moments of few bits are decoded")
	return cmd
}

// exactCheckpoint accepts one argument.
func exactCheckpoint(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usage("%s takes one argument, a job's folder or a checkpoint's; got %d", cmd.Name(), len(args))
	}
	return nil
}

func exportWeights(a *cli.App, path, model, out, external, moments string) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if out == "" {
		return cli.Usage("export: -o OUT is missing: name the file for the model")
	}
	o := onnx.Options{}
	if o.ExternalDataThreshold, err = cli.ParseThreshold(external); err != nil {
		return err
	}
	c, err := checkpoint.Load(path)
	if err != nil {
		return cli.FileError("%w", err)
	}
	defer c.Close()
	for _, f := range []string{c.Weights.Path(), c.Others.Path()} {
		if err := a.Reads("the checkpoint", f); err != nil {
			return err
		}
	}
	m, done, err := exportModel(a, c, model)
	if err != nil {
		return err
	}
	defer done()
	given, err := c.Export(m)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if o.ExternalDataThreshold == 0 {
		o.ExternalDataThreshold = given.External // as in the original
	}
	if err := a.WriteModel("--out", out, m, o); err != nil {
		return err
	}
	if moments != "" {
		err := a.StreamArtefact("--moments", moments, func(w io.Writer) error { return train.WriteMoments(w, c) })
		if err != nil {
			return err
		}
	}
	w := a.Out
	if out == cli.StreamName {
		w = a.Err
	}
	err = report.Export(w, format, report.Exported{Out: out, Checkpoint: c.Path, Step: c.Step, Model: m.Path,
		Weights: len(given.Weights), Added: len(given.Added), Kept: given.Kept, Bytes: given.Bytes, Moments: moments})
	if err != nil {
		return err
	}
	return a.Next(format, &cli.NextCommand{Verb: "inspect", Args: []string{out}, Bare: true})
}

// exportModel reads the model that the weights of a checkpoint go to, as its file has it.
func exportModel(a *cli.App, c *checkpoint.Checkpoint, name string) (m *graph.Model, done func() error, err error) {
	path := name
	if path == "" {
		path = c.Model.Path
	}
	if path == cli.StreamName || path == "" {
		return nil, nil, cli.Usage("%s does not say where its model is, which came from standard input: "+
			"name it with memopt export --model", c.Path)
	}
	if err := checkForward(a, path); err != nil {
		return nil, nil, err
	}
	if m, done, err = checkpoint.OpenModel(path); err != nil {
		return nil, nil, cli.FileError("%w", err)
	}
	now, err := checkpoint.DescribeModel(m, c.HasState)
	if err != nil {
		done()
		return nil, nil, cli.FileError("%w", err)
	}
	if name != "" && now.StructureSHA256 != c.Model.StructureSHA256 {
		return m, done, nil // another model, which has to have the weights by name
	}
	if err := c.Model.Check(now); err != nil {
		done()
		return nil, nil, cli.Usage("%w; name the model that was trained with memopt export --model", err)
	}
	return m, done, nil
}

// checkForward refuses a model that has a backward half.
func checkForward(a *cli.App, path string) error {
	m, err := load.Unchecked(a, path, load.Reading{})
	if err != nil {
		return err
	}
	defer m.Close()
	switch b, err := live.FindBoundary(m.Model); {
	case errors.Is(err, live.ErrNoBoundary):
		return nil
	case err != nil:
		return cli.Classify(cli.Wrap(path, err))
	case b.Kind == live.YieldBoundary:
		return cli.Usage("%s is a training graph: node %q divides it into a forward and a backward half; "+
			"name the forward model, with weights of the same names, with memopt export --model", path,
			m.Graph.NodeLabel(b.Node))
	}
	return cli.Usage("%s is a training graph: it has a backward half; name the forward model, with weights "+
		"of the same names, with memopt export --model", path)
}
