package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/view/report"
)

// TestReadBuild: what Go's command recorded of the sources is what version prints.
func TestReadBuild(t *testing.T) {
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want report.Version
	}{
		{"a build of a checkout with changes", debug.BuildInfo{
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"},
				{Key: "vcs.modified", Value: "true"}},
		}, report.Version{Revision: "0123456789abcdef", Modified: true}},
		{"no checkout", debug.BuildInfo{}, report.Version{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got report.Version
			cli.ReadBuild(&got, &c.info)
			require.Equal(t, c.want, got)
		})
	}
}
