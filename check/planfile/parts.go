package planfile

import (
	"context"
	"errors"
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/chunk"
	"memopt/recompute"
)

// cut makes the graph in parts, and tells whether each node of the whole graph is there: one in a region as often as
// the region has parts, another once.
func (c *checker) cut() error {
	if _, err := recompute.ResolveOrder(c.whole.Graph, c.record.WholeOrder); err != nil {
		c.fault("wrong-order", -1, "", "whole_order: %v", err)
		return nil
	}
	b, err := live.FindBoundary(c.whole)
	if err != nil {
		c.fault("unknown", -1, "", "%v", err)
		return nil
	}
	var cuts []chunk.Cut
	for _, x := range c.record.Fission {
		cuts = append(cuts, chunk.Cut(x))
	}
	order := make(graph.Order, len(c.record.WholeOrder))
	for i, id := range c.record.WholeOrder {
		order[i] = graph.NodeID(id)
	}
	seeded := recompute.Seed(c.whole, c.record.Seed)
	c.parts, err = chunk.Apply(context.Background(), seeded, order, b, c.env, cuts)
	if errors.Is(err, chunk.ErrCut) {
		c.fault("not-made", -1, "", "regions in parts: %v", err)
		return nil
	} else if err != nil {
		return fmt.Errorf("regions in parts: %w", err)
	}
	c.old = c.parts.Model
	times := make([]int, len(c.whole.Graph.Nodes))
	for _, id := range c.parts.Origin {
		if id != graph.NoNode {
			times[id]++
		}
	}
	wanted := map[string]int{}
	for _, x := range c.record.Fission {
		for _, label := range x.Nodes {
			wanted[label] = x.Parts
		}
	}
	for id, label := range recompute.Labels(c.whole.Graph) {
		if n, inParts := wanted[label]; inParts && times[id] < min(n, 2) || times[id] > max(n, 1) {
			c.fault("never-computed", -1, label, "the graph in parts computes the node %d times: wanted %d parts",
				times[id], max(n, 1))
		}
	}
	return nil
}
