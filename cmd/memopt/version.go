package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"memopt"
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

// thisBuild is which build this is.
func thisBuild() report.Version {
	v := report.Version{Version: memopt.Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		readBuild(&v, info)
	}
	return v
}

// readBuild reads the go command's record of a build's sources.
func readBuild(v *report.Version, info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
}
