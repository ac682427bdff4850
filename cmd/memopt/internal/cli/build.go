package cli

import (
	"runtime"
	"runtime/debug"

	"memopt"
	"memopt/view/report"
)

// ThisBuild is which build this is.
func ThisBuild() report.Version {
	v := report.Version{Version: memopt.Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		ReadBuild(&v, info)
	}
	return v
}

// ReadBuild reads the go command's record of a build's sources.
func ReadBuild(v *report.Version, info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
}
