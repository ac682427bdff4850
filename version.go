package memopt

import "runtime/debug"

// Unversioned is the version of a build without a recorded one: made by go run, or from sources
// that are not a checkout.
const Unversioned = "devel"

// release is the version of a program that is built from a source distribution, which has no
// revision to be found: the linker sets it (-ldflags "-X memopt.release=v1.2.3").
var release string

// Version is the release of memopt that this program was built with, as the go command recorded
// it: a tag, or made from the revision and its time.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Unversioned
	}
	return versionIn(info)
}

// versionIn finds memopt in the record of a build: the program itself, or a module that it uses.
func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil && m.Path == "memopt" {
			m = m.Replace
		} else if m.Path != "memopt" {
			continue
		}
		if m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return Unversioned
}
