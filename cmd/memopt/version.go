package main

import (
	"github.com/spf13/cobra"

	"memopt/view/report"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.version() },
	}
}

// version says which build of memopt this is.
func (a *app) version() error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	return report.VersionReport(a.out, format, thisBuild())
}
