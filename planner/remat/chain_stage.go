package remat

import (
	"context"
	"math"
	"slices"
)

// chainOption is a choice of values that a stage keeps from its forward run to its backward half:
// some inputs of that half, besides the output. The others are recomputed there, from the kept
// values and the input.
type chainOption struct {
	hold int64 // bytes kept
	cost int64 // of the tasks that run again
}

// chainPrices are the prices of a byte for cuts of stages, as parts of the price that gives the
// best bound on the cost.
var chainPrices = []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.999, 1.001, 1.1, 1.3, 2, 4, 16}

// offer finds the options of all stages: to keep all, and one minimum cut for each price.
func (c *chain) offer(ctx context.Context) {
	stages, turn := len(c.stages), c.turn
	for s := range c.stages {
		c.stages[s].options = []chainOption{{hold: c.stages[s].hold}}
	}
	c.again, c.places = [][]bool{make([]bool, len(c.g.Tasks))}, [][]int32{nil}
	cut := newMomentCut(newMoments(c.g))
	cut.pinned = append(slices.Clone(c.long), c.inputs[1:]...)
	stage := make([]int32, turn)
	for s := range stages {
		for t := c.starts[s]; t < c.starts[s+1]; t++ {
			stage[t] = int32(s)
		}
	}
	for _, part := range chainPrices {
		if ctx.Err() != nil {
			return
		}
		cut.price(turn, part*c.price, math.MaxInt64/2, math.MaxInt64)
		c.again = append(c.again, slices.Clone(cut.again))
		c.places = append(c.places, c.g.rerunPlaces(cut.tasks(), turn))
		for s := range c.stages {
			st := &c.stages[s]
			st.options = append(st.options, c.option(s, cut))
		}
		for _, h := range cut.held {
			if cut.cuts(h) && !cut.wanted(h.value) {
				o := c.stages[stage[cut.maker[h.value]]].options
				o[len(o)-1].hold += h.size // kept for the sake of recomputed tasks
			}
		}
	}
}

// option converts a cut for stage s, without values kept for the sake of recomputed tasks.
func (c *chain) option(s int, cut *momentCut) chainOption {
	o := chainOption{hold: c.stages[s].hold}
	for t := c.starts[s]; t < c.starts[s+1]; t++ {
		if !cut.again[t] {
			continue
		}
		o.cost += c.g.Tasks[t].Cost
		for _, v := range c.g.Tasks[t].Makes {
			if v != c.output(s) && cut.wanted(v) {
				o.hold -= c.g.Values[v].Size
			}
		}
	}
	o.hold = max(0, o.hold)
	return o
}

// ask finds the first backward tasks that ask for the values of each stage or for its input.
func (c *chain) ask() {
	n, turn := int32(len(c.g.Tasks)), c.turn
	first := make([]int32, len(c.g.Values)) // by value: its first backward reader
	for v := range first {
		first[v] = n
	}
	for t := n - 1; t >= turn; t-- {
		for _, u := range c.g.Tasks[t].Uses {
			first[u] = t
		}
	}
	c.asked = make([]int32, len(c.inputs))
	latest := turn
	for s := len(c.inputs) - 1; s >= 0; s-- {
		at := n
		if v := c.inputs[s]; v >= 0 {
			at = first[v]
		}
		for t := c.starts[s]; t < c.starts[s+1]; t++ {
			for _, v := range c.g.Tasks[t].Makes {
				if v != c.output(s) {
					at = min(at, first[v])
				}
			}
		}
		if at < n {
			latest = max(latest, at)
		}
		c.asked[s] = latest
	}
}

// output is the input of the next stage, or -1.
func (c *chain) output(s int) int32 {
	if s+1 < len(c.inputs) {
		return c.inputs[s+1]
	}
	return -1
}

// measure computes the figures of the stages.
func (c *chain) measure() {
	turn := c.turn
	last := make([]int32, len(c.g.Values))  // by value: its last reader
	local := make([]int32, len(c.g.Values)) // by value: its last forward reader
	stage := make([]int32, len(c.g.Values)) // by value: the stage that makes it, or the number of stages
	for v := range last {
		last[v], local[v], stage[v] = -1, -1, int32(len(c.inputs))
	}
	for t := range c.g.Tasks {
		for _, u := range c.g.Tasks[t].Uses {
			last[u] = int32(t)
			if int32(t) < turn {
				local[u] = int32(t)
			}
		}
	}
	c.stages = make([]chainStage, len(c.inputs))
	for s := range c.stages {
		st := &c.stages[s]
		if v := c.inputs[s]; v >= 0 {
			st.input = c.g.Values[v].Size
		}
		for t := c.starts[s]; t < c.starts[s+1]; t++ {
			if !c.fixed[t] {
				st.cost += c.g.Tasks[t].Cost
			}
			for _, v := range c.g.Tasks[t].Makes {
				stage[v] = int32(s)
				if last[v] >= c.asked[s] {
					st.back += c.g.Values[v].Size
					st.reads = true
				}
				if last[v] >= c.asked[s] || v == c.output(s) {
					st.hold += c.g.Values[v].Size
				}
			}
		}
		st.pass = c.forward(s, func(v int32) int32 { return local[v] })
		st.keep = c.forward(s, func(v int32) int32 { return last[v] })
	}
	c.backward(last, stage)
}

// forward is the peak of a run of stage s with values that live to their ends, and an output that
// lives on.
func (c *chain) forward(s int, end func(v int32) int32) (peak int64) {
	live := int64(0)
	dying := make([]int64, c.starts[s+1]-c.starts[s]) // by task of the stage: bytes that end with it
	for t := c.starts[s]; t < c.starts[s+1]; t++ {
		task := &c.g.Tasks[t]
		for _, v := range task.Makes {
			live += c.g.Values[v].Size
			if to := max(end(v), t); to < c.starts[s+1] && v != c.output(s) {
				dying[to-c.starts[s]] += c.g.Values[v].Size
			}
		}
		peak = max(peak, live+task.Workspace)
		live -= dying[t-c.starts[s]]
	}
	return peak
}

// backward sets the needs of the stages' backward halves besides values of the stage: the outputs
// of backward tasks, and values of later stages that are still read.
func (c *chain) backward(last, stage []int32) {
	n, stages := int32(len(c.g.Tasks)), int32(len(c.inputs))
	dying := make([]int64, n)
	live, s := int64(0), stages-1
	for t := c.starts[stages]; t < n; t++ {
		for s > 0 && c.asked[s-1] <= t {
			for x := c.starts[s]; x < c.starts[s+1]; x++ {
				for _, v := range c.g.Tasks[x].Makes {
					if last[v] >= t {
						live += c.g.Values[v].Size
						dying[last[v]] += c.g.Values[v].Size
					}
				}
			}
			s--
			c.stages[s].carried = live
		}
		task := &c.g.Tasks[t]
		for _, v := range task.Makes {
			if stage[v] == stages {
				live += c.g.Values[v].Size
				if !c.g.Values[v].Keep {
					dying[max(t, last[v])] += c.g.Values[v].Size
				}
			}
		}
		c.stages[s].reverse = max(c.stages[s].reverse, live+task.Workspace)
		live -= dying[t]
	}
}
