package memopt

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// The version is that of memopt, whichever program uses it.
func TestVersionIn(t *testing.T) {
	self := func(version string) debug.Module { return debug.Module{Path: "memopt", Version: version} }
	used := self("v1.2.3")
	other := debug.Module{Path: "other", Version: "v7.0.0"}
	replaced := debug.Module{Path: "memopt", Version: "v1.0.0",
		Replace: &debug.Module{Path: "fork", Version: "v1.0.1"}}
	for _, c := range []struct {
		name, want string
		info       debug.BuildInfo
	}{
		{"a release", "v1.2.3", debug.BuildInfo{Main: used}},
		{"changed sources", "v0.0.0-20260102030405-0123456789ab+dirty",
			debug.BuildInfo{Main: self("v0.0.0-20260102030405-0123456789ab+dirty")}},
		{"a program that uses memopt", "v1.2.3", debug.BuildInfo{Main: other, Deps: []*debug.Module{&used}}},
		{"a fork of memopt", "v1.0.1", debug.BuildInfo{Main: other, Deps: []*debug.Module{&replaced}}},
		{"go run", Unversioned, debug.BuildInfo{Main: self("(devel)")}},
		{"a program without memopt's version", Unversioned, debug.BuildInfo{Main: other}},
		{"nothing recorded", Unversioned, debug.BuildInfo{}},
	} {
		require.Equal(t, c.want, versionIn(&c.info), c.name)
	}
}
