package recompute

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// fixSeed gives a random node a seed unless it has one, so that a clone repeats its
// draw.
func (r *rewriter) fixSeed(id graph.NodeID) error {
	n := r.g.Nodes[id]
	info := op.Of(n.Kind)
	if !info.CanSeed(info.VersionOf(n, graph.OpsetVersion(r.versions, info.Domain))) {
		return fmt.Errorf("node %q (%s) draws random numbers and has no attribute that fixes them",
			r.old.NodeLabel(id), n.Op)
	}
	if n.Attr(info.SeedAttr) != nil {
		return nil
	}
	setSeed(n, r.old.ValueName(n.Output(0)), r.opts.Seed)
	r.out.Seeded = append(r.out.Seeded, id)
	return nil
}

// fixParts gives seeds to the random nodes that compute parts of others: if one of them has a
// clone, so that its seed is fixed, the others have to draw from the same one.
func (r *rewriter) fixParts() error {
	for id, n := range r.g.Nodes {
		info := op.Of(n.Kind)
		if !info.Random {
			continue
		}
		_, part, err := op.DrawsOf(n)
		if err != nil {
			return fmt.Errorf("node %q (%s): %w", r.old.NodeLabel(graph.NodeID(id)), n.Op, err)
		}
		if !part || !info.CanSeed(info.VersionOf(n, graph.OpsetVersion(r.versions, info.Domain))) {
			continue
		}
		if err := r.fixSeed(graph.NodeID(id)); err != nil {
			return err
		}
	}
	return nil
}

// setSeed gives a random node a seed, which depends on the name of its first output and on a number
// only; of a part, on the name of its whole's.
func setSeed(n *graph.Node, output string, seed int64) {
	if part, _, err := op.DrawsOf(n); err == nil && part.Of != "" {
		output = part.Of
	}
	op.SetSeed(n, hashName(output)+int32(seed))
}

// Seed returns a copy of a model whose random nodes all have seeds: those without one get the seed
// that Apply would give them. A model whose random nodes have seeds already is returned as it is.
// Nodes of subgraphs, and operators without a seed attribute, are not changed.
func Seed(m *graph.Model, seed int64) *graph.Model {
	out := m
	for id, n := range m.Graph.Nodes {
		info := op.Of(n.Kind)
		if !info.Random || info.SeedAttr == "" || !info.CanSeed(info.SinceVersion(m.OpsetVersion(info.Domain))) ||
			n.Attr(info.SeedAttr) != nil {
			continue
		}
		if out == m {
			out = m.Clone()
		}
		setSeed(out.Graph.Nodes[id], m.Graph.ValueName(n.Output(0)), seed)
	}
	return out
}

// hashName is the hash that ONNX Runtime's memory optimizer seeds nodes with: the
// name's bytes as signed digits of a number in base 101, modulo 2^32.
func hashName(name string) int32 {
	var h uint32
	for i := range len(name) {
		h = 101*h + uint32(int32(int8(name[i])))
	}
	return int32(h)
}
