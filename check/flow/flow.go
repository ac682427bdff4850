package flow

// endless is more than all other capacities together.
const endless = int64(1) << 60

// net is a network for a maximum flow. Arcs stand in pairs, each with its reverse; 0 and 1 are none.
type net struct {
	arcs             []arc
	head, now, level []int // by node: the newest arc; the arc to be tried next; the distance from the source
}

// newNet is a network of so many nodes.
func newNet(nodes int) *net { return &net{arcs: make([]arc, 2), head: make([]int, nodes)} }

type arc struct {
	to, next int
	room     int64
}

// arc adds an arc with room for so much flow.
func (n *net) arc(from, to int, room int64) {
	n.arcs = append(n.arcs, arc{to, n.head[from], room}, arc{from, n.head[to], 0})
	n.head[from], n.head[to] = len(n.arcs)-2, len(n.arcs)-1
}

// maximum is the largest flow, found on shortest paths (Dinic 1970).
func (n *net) maximum(source, sink int) (total int64) {
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
		for more := endless; more > 0; total += more {
			more = n.push(source, sink, endless)
		}
	}
}

// push finds a path from a node to the sink and returns the flow that it takes, up to most.
func (n *net) push(at, sink int, most int64) int64 {
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
