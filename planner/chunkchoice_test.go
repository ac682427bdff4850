package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/live"
)

// listOf is a graph in parts with a lower bound of its peak and the overhead of its first plan; below 0: it has none.
func listOf(bound int64, overhead float64) *chunked {
	l := &chunked{asIs: &Plan{}}
	l.asIs.Base = &live.Timeline{LowerBound: bound}
	if overhead >= 0 {
		l.first = &Plan{}
		l.first.Overhead = overhead
	}
	return l
}

// TestChunkChoice: lists of cuts that cannot fit are left out, unless none can; of the others the one with the
// cheapest first plan is searched, if it is not far dearer than the plan without parts; where no plan fits yet,
// those that may come lowest are.
func TestChunkChoice(t *testing.T) {
	a, b, d := listOf(300, 0.2), listOf(100, 0.1), listOf(200, -1)
	c := &chunker{lists: []*chunked{a, b, d}}
	require.Equal(t, []*chunked{b, d}, c.open(200))
	require.Equal(t, []*chunked{b}, c.open(99), "what may come lowest")
	require.Equal(t, []*chunked{b}, c.promising(c.lists, nil))
	plain := &Plan{}
	plain.Overhead = 0.1 / searchGain
	require.Equal(t, []*chunked{b}, c.promising(c.lists, plain))
	plain.Overhead = 0.099 / searchGain
	require.Equal(t, []*chunked{b, d}, c.promising(c.lists, plain), "nothing is promising: what may come lowest")
	c.best = plain
	require.Empty(t, c.promising(c.lists, plain))
	require.Empty(t, c.open(99), "a plan fits already")
	c.best = nil
	a.first, b.first = nil, nil
	require.Equal(t, []*chunked{b, d}, c.promising(c.lists, nil), "no first plan fits")
}
