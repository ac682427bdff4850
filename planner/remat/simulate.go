package remat

import "fmt"

// Simulate runs the steps and returns their cost and peak. The error names the first step
// that is not allowed, or a node that was never computed. The budget plays no part.
func Simulate(in *Instance, steps []Step) (cost, peak int64, err error) {
	n := len(in.Nodes)
	live, done := make([]bool, n), make([]bool, n)
	sharers := make([]int32, n) // live outputs that share the memory of a node
	bytes, computed := int64(0), 0
	for i, s := range steps {
		if s.Node < 0 || int(s.Node) >= n {
			return 0, 0, fmt.Errorf("remat: step %d: there is no node at position %d", i, s.Node)
		}
		v, node := s.Node, &in.Nodes[s.Node]
		if s.Free {
			switch {
			case !live[v]:
				return 0, 0, fmt.Errorf("remat: step %d frees node %s, which is not live", i, in.id(int(v)))
			case node.Keep:
				return 0, 0, fmt.Errorf("remat: step %d frees node %s, which must be kept", i, in.id(int(v)))
			case sharers[v] > 0:
				return 0, 0, fmt.Errorf("remat: step %d frees node %s, whose memory is shared by a live output",
					i, in.id(int(v)))
			}
			live[v] = false
			if node.Alias >= 0 {
				sharers[node.Alias]--
			} else {
				bytes -= node.Size
			}
			continue
		}
		if live[v] {
			return 0, 0, fmt.Errorf("remat: step %d computes node %s, which is live", i, in.id(int(v)))
		}
		for _, u := range node.Inputs {
			if !live[u] {
				return 0, 0, fmt.Errorf("remat: step %d computes node %s, whose input %s is not live",
					i, in.id(int(v)), in.id(int(u)))
			}
		}
		live[v] = true
		if node.Alias >= 0 {
			sharers[node.Alias]++
		} else {
			bytes += node.Size
		}
		peak = max(peak, bytes+node.Workspace)
		if cost += node.Cost; cost < 0 {
			return 0, 0, fmt.Errorf("remat: step %d: the cost of the schedule overflows", i)
		}
		if !done[v] {
			done[v] = true
			computed++
		}
	}
	for v := range done {
		if computed < n && !done[v] {
			return 0, 0, fmt.Errorf("remat: node %s is never computed", in.id(v))
		}
	}
	return cost, peak, nil
}
