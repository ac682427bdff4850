package lookcmd

import (
	"github.com/spf13/cobra"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/graph/examples"
	"memopt/view/report"
)

func Examples(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "examples",
		Short: "List the built-in models",
		Long: "examples lists the models that are built into memopt, for use as example:NAME. They are generated " +
			"in memory: no file, no network.",
		Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			format, err := report.ParseFormat(a.Global.Output)
			if err != nil {
				return cli.Usage("%w", err)
			}
			if err := report.Examples(a.Out, format, examples.All()); err != nil {
				return err
			}
			first := memopt.ExamplePrefix + examples.All()[0].Name
			return a.Next(format, &cli.NextCommand{Verb: "plan", Args: []string{first}})
		},
	}
}
