package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"memopt/graph/examples"
	"memopt/report"
)

func (a *app) examplesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "examples",
		Short: "List the built-in models",
		Long:  "examples lists the models that are built into memopt, for use as example:NAME. They are generated in memory: no file, no network.",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			format, err := report.ParseFormat(a.global.output)
			if err != nil {
				return usage("%w", err)
			}
			return report.Examples(a.out, format, examples.All())
		},
	}
}

// version is the release; builds from a checkout say "devel".
const version = "devel"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			revision := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = " " + s.Value
					}
				}
			}
			_, err := fmt.Fprintf(a.out, "memopt %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
