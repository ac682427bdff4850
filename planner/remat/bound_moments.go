package remat

import "slices"

// moments is the memory of first runs of tasks, as the bounds see it.
type moments struct {
	g      *Graph
	n      int
	edges  int64   // of the graph, for counting work
	maker  []int32 // by value: its task
	last   []int32 // by value: the last task that reads it, or -1
	early  []int32 // by value: the last task before g.From that reads it, or -1
	end    []int32 // by value; of profile
	need   []int64 // by task: bytes of its own inputs and outputs, and workspace, less those written in place
	stolen []int32 // by task: the input that it writes over unless that is held for later readers, or -1
	cost   int64   // of all tasks
	bytes  int64   // of all values

	parts [][]int32 // by task: the values that are Part of its output; nil without any
	rerun []int32   // by task that joins parts: the last task behind its recomputation; of profile
}

func newMoments(g *Graph) *moments {
	n, values := len(g.Tasks), len(g.Values)
	m := &moments{
		g: g, n: n, maker: make([]int32, values), last: make([]int32, values), early: make([]int32, values),
		end: make([]int32, values), need: make([]int64, n), stolen: make([]int32, n),
	}
	for v := range g.Values {
		m.last[v], m.early[v] = -1, -1
		m.bytes += g.Values[v].Size + g.Values[v].Part
		if g.Values[v].Part > 0 {
			if m.parts == nil {
				m.parts, m.rerun = make([][]int32, n), make([]int32, n)
			}
			m.parts[g.Values[v].Join] = append(m.parts[g.Values[v].Join], int32(v))
		}
	}
	for t := range g.Tasks {
		task := &g.Tasks[t]
		m.cost += task.Cost
		m.edges += int64(1 + len(task.Uses) + len(task.Makes))
		for _, v := range task.Makes {
			m.maker[v] = int32(t)
		}
		for _, u := range task.Uses {
			m.last[u] = int32(t)
			if int32(t) < g.From {
				m.early[u] = int32(t)
			}
		}
	}
	for t := range g.Tasks {
		m.need[t], m.stolen[t] = m.ownNeed(int32(t))
		m.need[t] += g.beside(t)
	}
	return m
}

// size is the bytes of value v during the first run of t: with its Part where the whole is made later.
func (m *moments) size(v, t int32) int64 {
	value := &m.g.Values[v]
	if value.Part > 0 && t < value.Join {
		return value.Size + value.Part
	}
	return value.Size
}

// ownNeed is the bytes of the first run of t by itself. If an input may be written over, its bytes
// are not counted twice. That saves no bytes if the input is held for later readers: such an input,
// if there is only one to write over, is named, and counts as one that t does not need.
func (m *moments) ownNeed(t int32) (need int64, stolen int32) {
	task := &m.g.Tasks[t]
	need = task.Workspace
	for _, v := range task.Uses {
		need += m.size(v, t)
	}
	for _, v := range task.Makes {
		need += m.size(v, t)
	}
	if len(task.Makes) == 0 {
		return need, -1
	}
	count := 0
	stolen = -1
	for _, u := range task.InPlace {
		if m.g.Values[u].Keep {
			continue
		}
		count++
		if m.last[u] > t {
			stolen = u
		}
	}
	if count == 0 {
		return need, -1
	}
	if count > 1 {
		stolen = -1
	}
	return need - m.size(task.Makes[0], t), stolen
}

// profile judges the choice to hold over each first run all values needed behind it, except the
// outputs of the given tasks, which are recomputed behind it. It sets by task the bytes during its
// first run and the cost of the recomputed tasks behind it.
func (m *moments) profile(again []bool, bytes, cost []int64) {
	clear(bytes)
	clear(cost)
	m.findEnds(again, cost)
	for v, end := range m.end {
		spread(bytes, m.maker[v]+1, end, m.g.Values[v].Size)
		if value := &m.g.Values[v]; value.Part > 0 {
			spread(bytes, m.maker[v]+1, min(end, value.Join), value.Part)
			from, to := m.charged(int32(v))
			spread(bytes, from, to, value.Part)
		}
	}
	held, costs := int64(0), int64(0)
	for t := range bytes {
		held, costs = held+bytes[t], costs+cost[t]
		bytes[t], cost[t] = held+m.need[t], costs
		for _, u := range m.g.Tasks[t].Uses {
			if u != m.stolen[t] && m.end[u] > int32(t) {
				bytes[t] -= m.size(u, int32(t)) // counted twice
				bytes[t] -= m.extra(u, int32(t))
			}
			if m.parts == nil || len(m.parts[m.maker[u]]) == 0 {
				continue
			}
			for _, p := range m.parts[m.maker[u]] { // it is live, and they lie in it
				if p == m.stolen[t] || !slices.Contains(m.g.Tasks[t].Uses, p) {
					bytes[t] -= m.extra(p, int32(t))
				}
			}
		}
	}
}

// charged is the run of tasks over which a Part is held behind the first run of Join, to run that again.
func (m *moments) charged(v int32) (from, to int32) {
	join := m.g.Values[v].Join
	whole := m.g.Tasks[join].Makes[0]
	if m.g.Values[v].Keep || m.g.Values[whole].Keep {
		return 0, 0
	}
	return max(join+1, m.early[v], m.early[whole]), min(m.end[v], m.rerun[join])
}

// extra is the Part of a value if it is charged at the first run of t.
func (m *moments) extra(v, t int32) int64 {
	if m.g.Values[v].Part > 0 {
		if from, to := m.charged(v); from <= t && t < to {
			return m.g.Values[v].Part
		}
	}
	return 0
}

// findEnds finds by value the last task that it is held over from its first run on, and spreads the
// costs of recomputed tasks over the tasks that they follow.
func (m *moments) findEnds(again []bool, cost []int64) {
	copy(m.end, m.last)
	clear(m.rerun)
	for t := int32(m.n) - 1; t >= 0; t-- {
		if !again[t] {
			continue
		}
		task, end := &m.g.Tasks[t], int32(-1)
		for _, v := range task.Makes {
			if !m.g.Values[v].Keep {
				end = max(end, m.end[v])
			}
			m.end[v] = m.early[v]
		}
		spread(cost, t+1, end, task.Cost)
		if m.rerun != nil {
			m.rerun[t] = end
		}
		for _, u := range task.Uses {
			m.end[u] = max(m.end[u], end)
		}
	}
	for v := range m.end {
		if m.g.Values[v].Keep {
			m.end[v] = int32(m.n)
		}
	}
}

// spread adds x to all places from one to before another, in the form of differences.
func spread(diff []int64, from, to int32, x int64) {
	if from >= to {
		return
	}
	diff[from] += x
	if int(to) < len(diff) {
		diff[to] -= x
	}
}
