package remat

import (
	"context"
	"math"
	"slices"
)

// Long values, such as masks and the output of an encoder that all layers of a decoder read, are
// handed on by many stages; they are kept, and their tasks are not recomputed. A value is long if
// it is read over more than this part of the forward half, or, for an output of a task without
// inputs, over more than the second one.
const (
	chainLong       = 0.25
	chainLongSource = 1. / 64
	chainShort      = 4 // tasks; a value read over fewer is not long
)

// chainGraph is a graph with the places where it may be cut into stages.
type chainGraph struct {
	g      *Graph
	turn   int32   // the first backward task
	price  float64 // of a byte, where the options of the stages are looked for
	cuts   []int32 // places between forward tasks where one value alone is handed on to forward tasks, long ones aside
	handed []int32 // by cut: that value
	long   []int32
	fixed  []bool // by task: does not run again
}

// chainTurns is how many tasks from the moment that proves most of the cost on are tried as the
// turn.
const chainTurns = 3

// chainWork is the counted work for the price of a byte.
const chainWork = 10_000_000

// newChainGraphs looks for the places of a few turns: where extra runs become possible, if that is
// known, and from the moment on that proves most of the cost. The price is the one that proves it.
// The list is empty if no extra runs are needed or known to fit.
func newChainGraphs(ctx context.Context, g *Graph, budget int64) (list []*chainGraph) {
	b := newBounder(ctx, newMoments(g), budget, chainWork)
	if b.run(); b.best == 0 || b.best == math.MaxInt64 {
		return nil
	}
	turns := []int32{g.From}
	for turn := b.at; turn < b.at+chainTurns; turn++ {
		turns = append(turns, turn)
	}
	for i, turn := range turns {
		if turn <= 0 || int(turn) >= len(g.Tasks) || slices.Contains(turns[:i], turn) || ctx.Err() != nil {
			continue
		}
		c := newChainGraph(g, turn, b.views[b.at].price())
		known := func(o *chainGraph) bool { return slices.Equal(c.cuts, o.cuts) }
		if len(c.cuts) > 0 && !slices.ContainsFunc(list, known) {
			list = append(list, c)
		}
	}
	return list
}

func newChainGraph(g *Graph, turn int32, price float64) *chainGraph {
	c := &chainGraph{g: g, turn: turn, price: price, fixed: make([]bool, len(g.Tasks))}
	c.findLong()
	c.findCuts()
	return c
}

// forwardEnds returns by value its last forward reader, or the task that makes it.
func (c *chainGraph) forwardEnds() []int32 {
	end := make([]int32, len(c.g.Values))
	for t := range c.turn {
		for _, v := range c.g.Tasks[t].Makes {
			end[v] = t
		}
		for _, u := range c.g.Tasks[t].Uses {
			end[u] = t
		}
	}
	return end
}

// findLong finds the long values and the tasks that do not run again. Whatever these make counts as
// long.
func (c *chainGraph) findLong() {
	end := c.forwardEnds()
	for t := range c.turn {
		task := &c.g.Tasks[t]
		most := chainLong * float64(c.turn)
		if len(task.Uses) == 0 {
			most = chainLongSource * float64(c.turn)
		}
		c.fixed[t] = task.Once
		for _, v := range task.Makes {
			if float64(end[v]-t) > max(chainShort, most) {
				c.fixed[t] = true
			}
		}
		if c.fixed[t] && !task.Once {
			c.long = append(c.long, task.Makes...)
		}
	}
}

// findCuts counts at each place the values that are handed on, and adds up their numbers: where
// there is one that is its number.
func (c *chainGraph) findCuts() {
	end := c.forwardEnds()
	count, sum := make([]int64, c.turn+1), make([]int64, c.turn+1)
	for t := range c.turn {
		if c.fixed[t] && !c.g.Tasks[t].Once {
			continue
		}
		for _, v := range c.g.Tasks[t].Makes {
			spread(count, t+1, end[v]+1, 1)
			spread(sum, t+1, end[v]+1, int64(v))
		}
	}
	values, ids := int64(0), int64(0)
	for p := range c.turn {
		values, ids = values+count[p], ids+sum[p]
		if values == 1 && p > 0 {
			c.cuts, c.handed = append(c.cuts, p), append(c.handed, int32(ids))
		}
	}
}
