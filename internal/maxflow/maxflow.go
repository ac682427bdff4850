// Package maxflow finds maximum flows, and with them minimum cuts.
package maxflow

// Endless is more than all other capacities of a net together may be.
const Endless = int64(1) << 60

// Net is a network for a maximum flow. Arcs stand in pairs, each with its reverse; 0 and 1 are none.
type Net struct {
	arcs             []arc
	head, now, level []int // by node: the newest arc; the arc to be tried next; the distance from the source
}

// New is a network of so many nodes, numbered from 0.
func New(nodes int) *Net { return &Net{arcs: make([]arc, 2), head: make([]int, nodes)} }

type arc struct {
	to, next int
	room     int64
}

// Arc adds an arc with room for so much flow.
func (n *Net) Arc(from, to int, room int64) {
	n.arcs = append(n.arcs, arc{to, n.head[from], room}, arc{from, n.head[to], 0})
	n.head[from], n.head[to] = len(n.arcs)-2, len(n.arcs)-1
}

// Maximum is the largest flow, found on shortest paths (Dinic 1970).
func (n *Net) Maximum(source, sink int) (total int64) {
	for {
		n.level = make([]int, len(n.head))
		n.level[source] = 1
		for queue := []int{source}; len(queue) > 0; queue = queue[1:] {
			for a := n.head[queue[0]]; a > 0; a = n.arcs[a].next {
				if to := n.arcs[a].to; n.arcs[a].room > 0 && n.level[to] == 0 {
					n.level[to], queue = n.level[queue[0]]+1, append(queue, to)
				}
			}
		}
		if n.level[sink] == 0 {
			return total
		}
		n.now = append([]int(nil), n.head...)
		for more := Endless; more > 0; total += more {
			more = n.push(source, sink, Endless)
		}
	}
}

// push finds a path from a node to the sink and returns the flow that it takes, up to most.
func (n *Net) push(at, sink int, most int64) int64 {
	if at == sink {
		return most
	}
	for ; n.now[at] > 0; n.now[at] = n.arcs[n.now[at]].next {
		a := n.now[at]
		if to := n.arcs[a].to; n.arcs[a].room > 0 && n.level[to] == n.level[at]+1 {
			if got := n.push(to, sink, min(most, n.arcs[a].room)); got > 0 {
				n.arcs[a].room -= got
				n.arcs[a^1].room += got
				return got
			}
		}
	}
	return 0
}

// Side marks, once the flow is a maximum one, the nodes that flow could still reach from the source: the
// smallest side of a source in a minimum cut.
func (n *Net) Side(source int) []bool {
	side := make([]bool, len(n.head))
	side[source] = true
	for queue := []int{source}; len(queue) > 0; queue = queue[1:] {
		for a := n.head[queue[0]]; a > 0; a = n.arcs[a].next {
			if to := n.arcs[a].to; n.arcs[a].room > 0 && !side[to] {
				side[to], queue = true, append(queue, to)
			}
		}
	}
	return side
}
