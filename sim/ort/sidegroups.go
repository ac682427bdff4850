package ort

import (
	"cmp"
	"slices"

	"memopt/graph"
)

// sideGroups are the side nodes of the backward half, grouped by the set of side outputs that they
// lead to. A side output is a value that a side node passes to the rest of the backward half, or
// any output without readers of a side node.
type sideGroups struct {
	group  []int32          // by node: its group, or -1
	nodes  [][]graph.NodeID // by group, in breadth-first order
	placed []bool           // by group
}

// findSideGroups finds the side nodes among the nodes not placed yet and subtracts their edges to
// other nodes from waits.
func (s *scheduler) findSideGroups(yield graph.NodeID, waits []int32) *sideGroups {
	side, isSide := s.sideNodes(yield, waits)
	sg := &sideGroups{group: make([]int32, len(s.g.Nodes))}
	for i := range sg.group {
		sg.group[i] = -1
	}
	sets := newIDSets()
	tag := make([]setID, len(s.g.Nodes)) // the side outputs that a node leads to
	for _, id := range slices.Backward(side) {
		t := emptySet
		for _, out := range s.e.out(id) {
			if isSide[out.node] {
				t = sets.union(t, tag[out.node])
				continue
			}
			waits[out.node]--
			t = sets.union(t, sets.single(uint32(s.g.Nodes[id].Outputs[out.outSlot])))
		}
		if len(s.e.out(id)) == 0 {
			for _, v := range s.g.Nodes[id].Outputs {
				if v != graph.NoValue {
					t = sets.union(t, sets.single(uint32(v)))
				}
			}
		}
		tag[id] = t
	}
	groupOf := map[setID]int32{}
	for _, id := range side {
		k, ok := groupOf[tag[id]]
		if !ok {
			k = int32(len(sg.nodes))
			groupOf[tag[id]] = k
			sg.nodes = append(sg.nodes, nil)
		}
		sg.group[id] = k
		sg.nodes[k] = append(sg.nodes[k], id)
	}
	sg.placed = make([]bool, len(sg.nodes))
	return sg
}

// sideNodes returns the unplaced nodes that do not depend on the YieldOp,
// breadth-first from those without unplaced producers.
func (s *scheduler) sideNodes(yield graph.NodeID, waits []int32) (side []graph.NodeID, isSide []bool) {
	isSide = make([]bool, len(s.g.Nodes))
	waits = slices.Clone(waits)
	for i := range s.g.Nodes {
		if id := graph.NodeID(i); !s.placed[id] && id != yield && waits[id] == 0 {
			side = append(side, id)
			isSide[id] = true
		}
	}
	for head := 0; head < len(side); head++ {
		for _, out := range s.e.out(side[head]) {
			if waits[out.node]--; waits[out.node] == 0 {
				side = append(side, out.node)
				isSide[out.node] = true
			}
		}
	}
	return side, isSide
}

// placeProducer places the group that an edge comes from, if that group is not placed yet, after
// the groups that it reads.
func (sg *sideGroups) placeProducer(s *scheduler, in edge) {
	k := sg.group[in.node]
	if k < 0 || sg.placed[k] {
		return
	}
	sg.placed[k] = true
	for _, id := range sg.nodes[k] {
		for _, in := range s.e.in(id) {
			sg.placeProducer(s, in)
		}
	}
	for _, id := range sg.nodes[k] {
		s.place(id)
	}
}

// placeRest places the groups that no node asked for, ordered by the first name among the values
// that each passes on.
func (sg *sideGroups) placeRest(s *scheduler) {
	type rest struct {
		name  string
		group int32
	}
	var left []rest
	for k := range sg.nodes {
		if !sg.placed[k] {
			left = append(left, rest{sg.firstOutput(s, int32(k)), int32(k)})
		}
	}
	slices.SortFunc(left, func(a, b rest) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.group, b.group))
	})
	for _, t := range left {
		sg.placeProducer(s, edge{node: sg.nodes[t.group][0]})
	}
}

func (sg *sideGroups) firstOutput(s *scheduler, k int32) string {
	first := ""
	note := func(v graph.ValueID) {
		if v == graph.NoValue {
			return
		}
		if name := s.g.Values[v].Name; first == "" || name < first {
			first = name
		}
	}
	for _, id := range sg.nodes[k] {
		n := s.g.Nodes[id]
		if len(s.e.out(id)) == 0 {
			for _, v := range n.Outputs {
				note(v)
			}
		}
		for _, out := range s.e.out(id) {
			if sg.group[out.node] != k {
				note(n.Outputs[out.outSlot])
			}
		}
	}
	return first
}
