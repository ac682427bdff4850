package main

import (
	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/view/report"
)

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return printVersion(a) },
	}
}

// printVersion says which build of memopt this is.
func printVersion(a *cli.App) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	return report.VersionReport(a.Out, format, cli.ThisBuild())
}
