package main

import (
	"runtime"
	"runtime/debug"

	"memopt"
	"memopt/view/report"
)

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
