package remat

// flowNet is a network with integral capacities and a flow through it, on dense slices: arc a runs
// from to[a^1] to to[a], and arcs a and a^1 are each other's residuals.
type flowNet struct {
	head  []int32 // by node: its first arc, or -1
	next  []int32 // by arc: the next arc of the same node, or -1
	to    []int32
	room  []int64 // by arc: residual capacity
	level []int32 // by node: arcs to the sink, or -1
	cur   []int32 // by node: the first arc that may still be of use in this phase
	queue []int32
	walk  []int32 // arcs of the path at work
	work  int64   // arcs looked at
}

const (
	flowSource = 0
	flowSink   = 1
)

// flowEndless is a capacity that no flow reaches: bounds keep finite capacities together below it.
const flowEndless = int64(1) << 61

// reset empties the net and gives it so many nodes, source and sink included.
func (f *flowNet) reset(nodes int) {
	f.next, f.to, f.room = f.next[:0], f.to[:0], f.room[:0]
	if cap(f.head) < nodes {
		f.head, f.level, f.cur = make([]int32, nodes), make([]int32, nodes), make([]int32, nodes)
	}
	f.head, f.level, f.cur = f.head[:nodes], f.level[:nodes], f.cur[:nodes]
	for v := range f.head {
		f.head[v] = -1
	}
}

// arc adds an arc without capacity and returns its number.
func (f *flowNet) arc(from, to int32) int32 {
	a := int32(len(f.to))
	f.to = append(f.to, to, from)
	f.next = append(f.next, f.head[from], f.head[to])
	f.room = append(f.room, 0, 0)
	f.head[from], f.head[to] = a, a+1
	return a
}

// capacity sets the capacity of an arc, with no flow along it.
func (f *flowNet) capacity(a int32, room int64) { f.room[a], f.room[a^1] = room, 0 }

// maximum sends as much as possible from the source to the sink by Dinic's algorithm and returns
// the amount. If more than limit arcs have been looked at it stops early: the result is then the
// value of some flow, and full is false.
func (f *flowNet) maximum(limit int64) (value int64, full bool) {
	for f.work < limit {
		if !f.levels() {
			return value, true
		}
		copy(f.cur, f.head)
		value += f.phase()
	}
	return value, false
}

// levels finds the distances to the sink, and reports whether the source has one.
func (f *flowNet) levels() bool {
	for v := range f.level {
		f.level[v] = -1
	}
	f.level[flowSink] = 0
	f.queue = append(f.queue[:0], flowSink)
	for i := 0; i < len(f.queue); i++ {
		v := f.queue[i]
		for a := f.head[v]; a >= 0; a = f.next[a] {
			f.work++
			if u := f.to[a]; f.level[u] < 0 && f.room[a^1] > 0 {
				f.level[u] = f.level[v] + 1
				f.queue = append(f.queue, u)
			}
		}
	}
	return f.level[flowSource] >= 0
}

// phase sends a flow that blocks all shortest paths.
func (f *flowNet) phase() (value int64) {
	f.walk = f.walk[:0]
	at := int32(flowSource)
	for {
		if at == flowSink {
			sent, back := f.push()
			value += sent
			f.walk = f.walk[:back]
			at = f.tail()
			continue
		}
		a := f.cur[at]
		for a >= 0 && (f.room[a] == 0 || f.level[f.to[a]] != f.level[at]-1) {
			a = f.next[a]
			f.work++
		}
		f.cur[at] = a
		switch {
		case a >= 0:
			f.walk = append(f.walk, a)
			at = f.to[a]
		case at == flowSource:
			return value
		default:
			f.level[at] = -1
			f.walk = f.walk[:len(f.walk)-1]
			at = f.tail()
		}
	}
}

// tail is the node at the end of the path at work.
func (f *flowNet) tail() int32 {
	if len(f.walk) == 0 {
		return flowSource
	}
	return f.to[f.walk[len(f.walk)-1]]
}

// push sends the bottleneck of the current path, and returns where its first full arc stands.
func (f *flowNet) push() (sent int64, full int) {
	sent = flowEndless
	for i, a := range f.walk {
		if f.room[a] < sent {
			sent, full = f.room[a], i
		}
	}
	for _, a := range f.walk {
		f.room[a] -= sent
		f.room[a^1] += sent
	}
	f.work += int64(len(f.walk))
	return sent, full
}

// sourceSide marks the nodes that the residual net connects with the source: the smallest source
// side of a minimum cut, once the flow is a maximum one. A marked node has level 1, all others 0.
func (f *flowNet) sourceSide() {
	clear(f.level)
	f.level[flowSource] = 1
	f.queue = append(f.queue[:0], flowSource)
	for i := 0; i < len(f.queue); i++ {
		for a := f.head[f.queue[i]]; a >= 0; a = f.next[a] {
			if u := f.to[a]; f.level[u] == 0 && f.room[a] > 0 {
				f.level[u] = 1
				f.queue = append(f.queue, u)
			}
			f.work++
		}
	}
}

// node adds a node.
func (f *flowNet) node() int32 {
	f.head, f.level, f.cur = append(f.head, -1), append(f.level, 0), append(f.cur, 0)
	return int32(len(f.head) - 1)
}
