package plancmd

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt/answers/snapshot"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/internal/inputfile"
	"memopt/internal/memlimit"
	simsnapshot "memopt/sim/snapshot"
	"memopt/view/report"
)

// perByte is how many bytes of memory a byte of a pickle takes at most, about.
const perByte = 24

// isSnapshot reports whether a file is a pickle; one that cannot be opened is not.
func isSnapshot(name string) bool {
	if name == cli.StreamName {
		return false
	}
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	head := make([]byte, 2)
	_, err = io.ReadFull(file, head)
	return err == nil && simsnapshot.IsPickle(head)
}

// explainSnapshot names the holders of a PyTorch program's memory, by a snapshot of its allocator.
func explainSnapshot(a *cli.App, cmd *cobra.Command, args []string, top int) error {
	name := args[0]
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if len(args) > 1 {
		return cli.Usage("%s is a snapshot of PyTorch's allocator: leave out %q, which names a value of a model", name,
			args[1])
	}
	wrong := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "top" && cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil {
			wrong = f.Name
		}
	})
	if wrong != "" {
		return cli.Usage("%s is a snapshot of PyTorch's allocator: --%s has no effect on it", name, wrong)
	}
	file, info, err := inputfile.Open(name, load.MaxInstance)
	if err != nil {
		return cli.Usage("%w", err)
	}
	defer file.Close()
	if err := memlimit.Check(info.Size()*perByte, "the snapshot %s", name); err != nil {
		return cli.Invalid(err)
	}
	a.Status.Say("reading %s", name)
	data, err := io.ReadAll(io.LimitReader(file, load.MaxInstance))
	if err != nil {
		return cli.FileError("%s: %w", name, err)
	}
	s, err := simsnapshot.Read(data)
	if err != nil {
		return cli.Invalid(cli.Wrap(name, err))
	}
	a.Status.Say("replaying %d events", len(s.Events))
	r, err := snapshot.Explain(a.Ctx, s)
	if err != nil {
		return cli.Classify(cli.Wrap(name, err))
	}
	return snapshot.Report(a.Out, format, r, snapshot.View{Path: name, Top: top})
}
