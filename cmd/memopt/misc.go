package main

import (
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

// release is the version; builds from a checkout say "devel".
const release = "devel"

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
	v := report.Version{Version: release, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return report.VersionReport(a.out, format, v)
}
