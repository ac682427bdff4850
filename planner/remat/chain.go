package remat

import (
	"context"
	"math"
)

// A training graph is often a chain: forward stages that each need one value of the stage before,
// and a backward half that asks for the values of the stages in the opposite order. For chains
// there is a dynamic program (Herrmann, Beaumont, Eyraud-Dubois, Hermann, Joly and Shilova,
// "Optimal checkpointing for heterogeneous chains", 2019) over parts of the chain and the bytes
// they may use. Here it works on stages cut out of any graph, whose figures are estimates, so that
// its answers are extra runs to be checked with Simulate; and they need not be the cheapest. A
// stage keeps all values that its backward half reads, or those of one of a few minimum cuts (see
// chainOption), as in Rockmate (Zhao, Le Hellard, Eyraud-Dubois, Gusak and Beaumont, 2023).

// chainStages is the largest number of stages: the program takes time in their third power.
const chainStages = 96

// chainGrains are the numbers of stages that are tried. Many small stages are good if few values
// are kept, few large ones, each with a choice of kept values inside, if most are.
var chainGrains = []int{chainStages, 48, 24, 12, 6, 3}

// chain is a graph cut into stages.
type chain struct {
	*chainGraph
	starts []int32 // by stage: its first task; one more stands for the first backward task
	inputs []int32 // by stage: the value of the stage before that it needs, or -1
	asked  []int32 // by stage: the first backward task that asks for its values; does not rise
	stages []chainStage
	again  [][]bool  // by option: the tasks that run again for the backward half of their stage
	places [][]int32 // by option and task: the first place that needs it
}

// chainStage is the figures of a stage, in bytes. The input of the stage is counted nowhere.
type chainStage struct {
	cost    int64 // of its tasks that may be recomputed
	input   int64
	hold    int64 // inputs of its backward half, and the output
	pass    int64 // the peak of a run that keeps only the output
	keep    int64 // the peak of a run that keeps all values in hold
	back    int64 // inputs of its backward half
	reads   bool  // and whether it reads anything
	reverse int64 // other needs of its backward half
	carried int64 // backward values that live when its backward half begins; 0 for the last stage
	options []chainOption
}

// ChainExtras treats the graph as a chain of stages and returns the cheapest extra runs with a peak
// within the budget (bytes) that the dynamic program for chains finds; nil if the graph is no
// chain, needs no extra runs, or every answer exceeds the budget.
func (g *Graph) ChainExtras(ctx context.Context, budget int64) []Extra {
	var best []Extra
	cost := int64(math.MaxInt64)
	for turn, c := range newChainGraphs(ctx, g, budget) {
		for i, grain := range chainGrains {
			if i > 0 && len(c.cuts) < grain/2 || i == 0 && turn > 0 && len(c.cuts) >= grain/2 {
				continue // nearly the same stages as before, or so many that they are worth the time only once
			}
			if ctx.Err() != nil {
				return best
			}
			if extras, found := newChain(ctx, c, grain).fit(ctx, budget); found < cost {
				best, cost = extras, found
			}
		}
	}
	return best
}

// newChain cuts the graph into at most so many stages. Where the context ends, they have fewer
// options.
func newChain(ctx context.Context, g *chainGraph, most int) *chain {
	c := &chain{chainGraph: g, starts: []int32{0}, inputs: []int32{-1}}
	c.choose(most)
	c.starts = append(c.starts, g.turn)
	c.ask()
	c.measure()
	c.offer(ctx)
	return c
}

// choose takes fewer than most of the cuts: of those in equal parts of the forward cost, the ones
// with the smallest values.
func (c *chain) choose(most int) {
	total := int64(0)
	for t := range c.turn {
		total += c.g.Tasks[t].Cost
	}
	share := total/int64(most) + 1
	sum, next, task := int64(0), share, int32(0)
	best := -1
	for i, at := range c.cuts {
		for ; task < at; task++ {
			sum += c.g.Tasks[task].Cost
		}
		if sum >= next && best >= 0 {
			c.starts, c.inputs = append(c.starts, c.cuts[best]), append(c.inputs, c.handed[best])
			next, best = sum-sum%share+share, -1
		}
		if len(c.cuts) < most {
			c.starts, c.inputs = append(c.starts, at), append(c.inputs, c.handed[i])
		} else if best < 0 || c.g.Values[c.handed[i]].Size <= c.g.Values[c.handed[best]].Size {
			best = i
		}
	}
}
