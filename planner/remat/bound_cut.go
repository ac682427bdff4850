package remat

import (
	"math"
	"math/bits"
	"slices"
)

// momentCut is the minimum cut of one moment, the first run of task t. The nodes of the net on the side of the
// source are the tasks recomputed behind t and the values needed there.
//
//   - A value that a first run behind t reads is needed. If its task is not recomputed it is held, and its price is
//     paid: an arc from the source to the task.
//   - A recomputed task costs its cost: an arc to the sink. It needs its inputs: arcs without end to these.
//   - An input that it needs and whose task is not recomputed is held too: an arc to its task. A value with one such
//     reader needs no node of its own.
//   - A task that must not be recomputed is the sink.
//   - A Part has its price where Join is recomputed and its own task is not: an arc between the two.
//
// Values held in any case (read by t, kept, needed before extra runs are allowed) are left out and count as
// fixed.
type momentCut struct {
	*moments
	net                  *flowNet
	base                 int32  // node of the first task
	spans                *spans // nil: the only moment of its net
	t                    int32  // the net stands for, or -1
	fixed                int64  // bytes at t whatever is held
	held                 []heldArc
	runs                 []runArc
	ends                 []int32 // arcs without end
	stamp                int32   // of this net
	mark                 []int32 // by value: stamp where it is held in any case
	node                 []int32 // by value: its node, noNode, or wanted where the task that reads it is in reader
	reader               []int32
	pinned               []int32 // values that are held in any case at the caller's request
	move                 bool    // values that are held in any case may be too large together: they move
	must, mustNot, force []int32 // see brancher
	again                []bool  // by task: runs again in the last choice
	scale                int     // of the last flow, with the price of the bytes that are free
	free                 int64
	value                int64   // the last flow less free
	rest                 []int64 // by arc; of takeApart
	steps                int64   // counted work besides that of the net
}

type heldArc struct {
	arc, value int32
	size       int64
}

type runArc struct{ arc, task int32 }

const (
	noNode    = int32(-1) // the value is not needed behind t
	oneReader = int32(-2) // one task that runs again does
)

func newMomentCut(m *moments) *momentCut {
	values := len(m.maker)
	return &momentCut{
		moments: m, t: -1, mark: make([]int32, values), node: make([]int32, values), reader: make([]int32, values),
		again: make([]bool, m.n), net: &flowNet{}, base: 2,
	}
}

func (c *momentCut) work() int64 { return c.net.work + c.steps }

// build makes the net of moment t.
func (c *momentCut) build(t int32) {
	if c.t == t {
		return
	}
	c.net.reset(2 + int(t))
	c.fill(t)
}

// fill adds moment t to a net that has nodes for the tasks before it.
func (c *momentCut) fill(t int32) {
	c.t, c.fixed = t, c.need[t]
	c.stamp++
	c.held, c.runs, c.ends = c.held[:0], c.runs[:0], c.ends[:0]
	for _, u := range c.g.Tasks[t].Uses {
		if u != c.stolen[t] {
			c.mark[u] = c.stamp
		}
	}
	for _, v := range c.pinned {
		if c.mark[v] != c.stamp && c.maker[v] < t {
			c.mark[v] = c.stamp
			c.fixed += c.size(v, t)
		}
	}
	for x := t - 1; x >= 0; x-- {
		for _, v := range c.g.Tasks[x].Makes {
			c.node[v] = noNode
			if c.mark[v] != c.stamp && (c.g.Values[v].Keep || c.early[v] > t && t < c.g.From) {
				c.mark[v] = c.stamp
				c.fixed += c.size(v, t)
			}
		}
		c.steps++
	}
	for x := t - 1; x >= 0; x-- {
		c.reach(x)
	}
	for x := t - 1; x >= 0; x-- {
		c.connect(x)
	}
}

// wanted tells whether a first run behind t reads v, which is not held in any case.
func (c *momentCut) wanted(v int32) bool {
	if c.mark[v] == c.stamp {
		return false
	}
	if c.spans != nil {
		return c.spans.due[v] <= c.spans.end[c.maker[v]]
	}
	return c.last[v] > c.t
}

// reached tells whether task x may have to be recomputed: all that read its values have been seen.
func (c *momentCut) reached(x int32) bool {
	for _, v := range c.g.Tasks[x].Makes {
		if c.wanted(v) || c.node[v] != noNode {
			return true
		}
	}
	return false
}

// reach finds the inputs that task x needs if it runs again, and which of them need a node.
func (c *momentCut) reach(x int32) {
	task := &c.g.Tasks[x]
	c.steps += int64(1 + len(task.Makes))
	if task.Once || !c.reached(x) {
		return
	}
	c.steps += int64(len(task.Uses))
	for _, u := range task.Uses {
		switch {
		case c.mark[u] == c.stamp || c.wanted(u) || !c.asks(x, u):
		case c.node[u] == noNode:
			c.node[u], c.reader[u] = oneReader, x
		case c.node[u] == oneReader:
			c.node[u] = c.net.node()
		}
	}
}

// connect adds the arcs of task x.
func (c *momentCut) connect(x int32) {
	if !c.reached(x) {
		return
	}
	task, to := &c.g.Tasks[x], c.base+x
	c.steps += int64(1 + len(task.Makes) + len(task.Uses))
	if task.Once {
		to = flowSink
	} else {
		c.runs = append(c.runs, runArc{c.net.arc(to, flowSink), x})
		for _, u := range task.Uses {
			if c.mark[u] != c.stamp && !c.wanted(u) && c.node[u] >= 0 && c.asks(x, u) {
				c.ends = append(c.ends, c.net.arc(to, c.node[u]))
			}
		}
	}
	for _, v := range task.Makes {
		from := int32(flowSource)
		switch {
		case c.mark[v] == c.stamp:
			continue
		case c.wanted(v):
			if task.Once {
				c.fixed += c.size(v, c.t)
				c.part(v, to)
				continue
			}
		case c.node[v] >= 0:
			from = c.node[v]
		case c.node[v] == oneReader:
			from = c.base + c.reader[v]
		default:
			continue
		}
		c.held = append(c.held, heldArc{c.net.arc(from, to), v, c.size(v, c.t)})
		c.part(v, to)
	}
}

// part adds the price of a Part, paid where Join runs again and the task of the part, at node to, does not: then the
// whole does not count as held, and the part has bytes of its own or keeps a buffer from being freed that is as large
// as all parts in it.
func (c *momentCut) part(v, to int32) {
	value := &c.g.Values[v]
	if value.Part == 0 || value.Join >= c.t || c.g.Tasks[value.Join].Once || !c.reached(value.Join) ||
		!c.asks(value.Join, v) {
		return
	}
	if whole := c.g.Tasks[value.Join].Makes[0]; c.mark[whole] != c.stamp && whole != c.stolen[c.t] {
		c.held = append(c.held, heldArc{c.net.arc(c.base+value.Join, to), v, value.Part})
	}
}

// price finds the cheapest choice for a price of each byte. It returns the bound that this proves on the cost
// within the budget, and the choice if the work was enough to find it.
func (c *momentCut) price(t int32, price float64, budget, limit int64) (proved int64, best choice, full bool) {
	c.build(t)
	if c.fixed > budget && !c.move {
		return math.MaxInt64, choice{}, false
	}
	// Costs and prices are scaled by a power of two so that all of them together stay below
	// flowEndless, and then rounded down: the flow is never worth more than exact numbers allow.
	scale := 60 - max(bits.Len64(uint64(c.cost)), exponent(price)+bits.Len64(uint64(c.bytes)))
	perByte := newRatio(price, scale)
	for _, h := range c.held {
		c.net.capacity(h.arc, perByte.times(h.size, false))
	}
	for _, r := range c.runs {
		c.net.capacity(r.arc, shift(c.g.Tasks[r.task].Cost, scale))
	}
	if c.scale = scale; c.fixed > budget {
		c.free = -perByte.times(c.fixed-budget, false)
	} else {
		c.free = perByte.times(budget-c.fixed, true)
	}
	flow, full := c.flow(limit)
	if c.value = flow - c.free; c.value > 0 {
		proved = shiftUp(c.value, scale)
	}
	if full {
		best = c.chosen()
	}
	return proved, best, full
}

// smallest finds the choice with the fewest bytes.
func (c *momentCut) smallest(t int32, limit int64) (best choice, full bool) {
	c.build(t)
	for _, h := range c.held {
		c.net.capacity(h.arc, h.size)
	}
	for _, r := range c.runs {
		c.net.capacity(r.arc, 0)
	}
	if _, full = c.flow(limit); full {
		best = c.chosen()
	}
	return best, full
}

func (c *momentCut) flow(limit int64) (value int64, full bool) {
	for _, a := range c.ends {
		c.net.capacity(a, flowEndless)
	}
	c.forceRuns()
	return c.net.maximum(c.net.work + min(limit, math.MaxInt64/2))
}

// forceRuns sets the arcs of the tasks that must and must not be recomputed in a case of a brancher.
func (c *momentCut) forceRuns() {
	if c.force == nil {
		return
	}
	for _, r := range c.runs {
		c.net.capacity(c.force[r.task], 0)
	}
	for _, x := range c.must {
		c.net.capacity(c.force[x], flowEndless)
	}
	for _, r := range c.runs {
		if slices.Contains(c.mustNot, r.task) {
			c.net.capacity(r.arc, flowEndless)
		}
	}
}

// chosen reads the choice from the net, and notes in again which tasks run again.
func (c *momentCut) chosen() choice {
	c.net.sourceSide()
	best := choice{bytes: c.fixed}
	for _, h := range c.held {
		if c.cuts(h) {
			best.bytes += h.size
		}
	}
	clear(c.again)
	for _, r := range c.runs {
		if c.net.level[c.base+r.task] == 1 {
			c.again[r.task] = true
			best.cost += c.g.Tasks[r.task].Cost
		}
	}
	return best
}

// cuts tells whether the cut found by sourceSide goes through an arc: whether its value is held.
func (c *momentCut) cuts(h heldArc) bool {
	return c.net.level[c.net.to[h.arc^1]] == 1 && c.net.level[c.net.to[h.arc]] == 0
}

// tasks lists the tasks of the last choice.
func (c *momentCut) tasks() []int32 { return listed(c.again) }

// listed is the numbers of the tasks that run again.
func listed(again []bool) (tasks []int32) {
	for x, runs := range again {
		if runs {
			tasks = append(tasks, int32(x))
		}
	}
	return tasks
}
