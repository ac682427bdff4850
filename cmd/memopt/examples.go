package main

import (
	"github.com/spf13/cobra"

	"memopt"
	"memopt/graph/examples"
	"memopt/view/report"
)

func (a *app) examplesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "examples",
		Short: "List the built-in models",
		Long: "examples lists the models that are built into memopt, for use as example:NAME. They are generated " +
			"in memory: no file, no network.",
		Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			format, err := report.ParseFormat(a.global.output)
			if err != nil {
				return usage("%w", err)
			}
			if err := report.Examples(a.out, format, examples.All()); err != nil {
				return err
			}
			first := memopt.ExamplePrefix + examples.All()[0].Name
			return a.next(format, &nextCommand{verb: "plan", args: []string{first}})
		},
	}
}
