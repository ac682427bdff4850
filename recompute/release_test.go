package recompute_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/recompute"
)

// TestRelease: behind outputs that have lost their readers stands a Shape node, in either half; outputs that are known
// to be small, as those of 3 rows, have none.
func TestRelease(t *testing.T) {
	const constants, operands = "float ratio = {0.5}, bool yes = {1}", ", ratio, yes"
	step := fmt.Sprintf(dropoutStep, 8, 17, constants, operands)
	r := guardCase(t, step, "drop", "dr", recompute.Options{Release: true})
	// The mask of the original, and the data of the clone.
	require.Equal(t, "k_unread: k_unread = Shape(k)\n"+
		"drop_recompute: y_recompute, k_recompute = Dropout seed=3(r, ratio, yes)\n"+
		"y_recompute_unread: y_recompute_unread = Shape(y_recompute)\n", added(r))
	require.Equal(t, 2, r.ReleaseNodes)
	require.Equal(t, 1, r.Clones)
	require.Equal(t, "loss", r.Model.Graph.NodeLabel(r.Boundary.Node))
	require.Equal(t, "d", r.Model.Graph.NodeLabel(r.Boundary.Backward))
	small := guardCase(t, strings.Replace(step, "float[N, 8] x", "float[3, 8] x", 1), "drop", "dr",
		recompute.Options{Release: true})
	require.Zero(t, small.ReleaseNodes)
}
