package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"memopt/report"
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
	v := report.Version{Version: unversioned, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		readBuild(&v, info)
	}
	return v
}

// unversioned is the version of a build without a recorded one: made by go run, or from sources
// that are not a checkout.
const unversioned = "devel"

// readBuild reads what the go command recorded about a build: the version of the module, which is a
// tag, or is made from the revision and its time.
func readBuild(v *report.Version, info *debug.BuildInfo) {
	if m := info.Main.Version; m != "" && m != "(devel)" {
		v.Version = m
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
}
