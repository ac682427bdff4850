package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/fission"
	"memopt/graph/live"
)

// TestCutsText: regions and parts are counted, and a single region whose parts have other bits than
// the whole makes the plan, and the mode that allows it, inexact.
func TestCutsText(t *testing.T) {
	exact, other := fission.Cut{Parts: 4, Exact: true}, fission.Cut{Parts: 3}
	for _, c := range []struct {
		cuts *Cuts
		text string
		mode fission.Mode
	}{
		{nil, "", fission.Exact},
		{&Cuts{}, "", fission.Exact},
		{&Cuts{List: []fission.Cut{exact}}, "1 region in 4 parts", fission.Exact},
		{&Cuts{List: []fission.Cut{exact, exact}}, "2 regions in 8 parts", fission.Exact},
		{&Cuts{List: []fission.Cut{exact, other}}, "2 regions in 7 parts, not bit-equal", fission.Fast},
	} {
		require.Equal(t, c.text, c.cuts.Text())
		require.Equal(t, c.mode == fission.Exact, c.cuts.Exact(), c.text)
		if c.cuts != nil {
			require.Equal(t, c.mode, modeOf(c.cuts.List), c.text)
		}
	}
}

// TestWithScratch: a kernel's workspace lives beside what lives inside its node, and the sizes that
// were given stay as they are.
func TestWithScratch(t *testing.T) {
	given := &live.Sizes{Inner: []int64{5, 0, 7}}
	require.Equal(t, []int64{15, 20, 37}, withScratch(given, []int64{10, 20, 30}).Inner)
	require.Equal(t, []int64{5, 0, 7}, given.Inner)
	require.Same(t, given, withScratch(given, nil))
}
