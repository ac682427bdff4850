package diff

import (
	"bytes"

	"memopt"
	"memopt/graph"
	"memopt/recompute"
	"memopt/view/report"
)

// OfPlan is a plan as a subject; name is for messages.
func OfPlan(p *memopt.Plan, name string) (*Subject, error) {
	var b bytes.Buffer
	if err := report.PlanJSON(&b, p.Plan, p.Of.StructureSHA256, nil, 0); err != nil {
		return nil, err
	}
	s, err := Parse(b.Bytes(), name)
	if err != nil {
		return nil, err
	}
	s.Kind = PlanKind
	s.placements.known = true
	for _, r := range p.Record(0).Placements {
		s.placements.items = append(s.placements.items, newPlacement(r.Value, r.Before, r.Nodes))
	}
	if p.Of.Compiled != nil && p.Sizes != nil {
		if s.live.items, err = liveOf(p); err != nil {
			return nil, err
		}
		s.live.known = true
	}
	if p.Step.Seconds > 0 {
		s.set(stepTime, floatValue(1000*(p.Step.Seconds+p.Recompute.Seconds)))
	}
	return s, nil
}

// layerOf is the layer that the first of the names mentions that mentions one.
func layerOf(names ...string) string {
	for _, name := range names {
		if l := graph.LayerOf(name); l != graph.NoLayer {
			return l
		}
	}
	return graph.NoLayer
}

// positions counts the positions where two orders have different nodes.
func positions(a, b recompute.NodeOrder) int {
	n := max(len(a), len(b)) - min(len(a), len(b))
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
