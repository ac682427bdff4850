package recompute

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// fixSeed gives a random node a seed unless it has one, so that a clone repeats its
// draw. The number depends on the node's first output and on Options.Seed only.
func (r *rewriter) fixSeed(id graph.NodeID) error {
	n := r.g.Nodes[id]
	info := op.Of(n.Kind)
	if !info.CanSeed(info.VersionOf(n, graph.OpsetVersion(r.versions, info.Domain))) {
		return fmt.Errorf("node %q (%s) draws random numbers and has no attribute that fixes them", r.old.NodeLabel(id), n.Op)
	}
	if n.Attr(info.SeedAttr) != nil {
		return nil
	}
	seed := hashName(r.old.ValueName(n.Output(0))) + int32(r.opts.Seed)
	if info.FloatSeed {
		n.SetAttr(info.SeedAttr, float32(seed))
	} else {
		n.SetAttr(info.SeedAttr, int64(seed))
	}
	r.out.Seeded = append(r.out.Seeded, id)
	return nil
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
