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
	v := report.Version{Version: unversioned, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		readBuild(&v, info)
	}
	return report.VersionReport(a.out, format, v)
}

// unversioned is the version of a build of which Go's command recorded none: by go run, or where
// the sources are no checkout.
const unversioned = "devel"

// readBuild takes over what Go's command recorded of a build: the version of the module, which is a
// tag, or made up of the revision and its time.
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
