package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/report"
)

// TestReadBuild: what Go's command recorded is what version prints.
func TestReadBuild(t *testing.T) {
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want report.Version
	}{
		{"a build of a release", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}},
			report.Version{Version: "v1.2.3"}},
		{"a build of a checkout with changes", debug.BuildInfo{
			Main: debug.Module{Version: "v0.0.0-20260102030405-0123456789ab+dirty"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"},
				{Key: "vcs.modified", Value: "true"}},
		}, report.Version{Version: "v0.0.0-20260102030405-0123456789ab+dirty", Revision: "0123456789abcdef",
			Modified: true}},
		{"go run", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, report.Version{Version: unversioned}},
		{"no module", debug.BuildInfo{}, report.Version{Version: unversioned}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := report.Version{Version: unversioned}
			readBuild(&got, &c.info)
			require.Equal(t, c.want, got)
		})
	}
}
