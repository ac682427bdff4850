package remat

import (
	"context"
	"math"
)

// chainSlots is the number of units of memory that the dynamic program tells apart.
const chainSlots = 400

// chainProgram is the table of the dynamic program: for each part of the chain, stages s to t, and
// units of memory besides the input of s, the least cost of the forward runs that the part needs,
// and how it begins.
type chainProgram struct {
	*chain
	n     int
	unit  int64
	cost  []int64 // chainNever where the memory is too small
	begin []int32 // -1-o: stage s with its option o; a later stage: pass on to it and keep its input
	need  []chainUnits
}

// chainUnits is a chainStage in units of memory, all rounded up.
type chainUnits struct {
	input, pass, keep, reverse, carried int

	hold []int // by option
}

const chainNever = math.MaxInt64 / 4

func (p *chainProgram) at(s, t, units int) int { return (s*p.n+t)*(chainSlots+1) + units }

// newChainProgram solves all parts, small ones first; nil if the context ends before.
func newChainProgram(ctx context.Context, c *chain, bytes int64) *chainProgram {
	n := len(c.stages)
	p := &chainProgram{
		chain: c, n: n, unit: max(1, bytes/chainSlots), cost: make([]int64, n*n*(chainSlots+1)),
		begin: make([]int32, n*n*(chainSlots+1)), need: make([]chainUnits, n),
	}
	for s, st := range c.stages {
		p.need[s] = chainUnits{
			input: p.units(st.input), pass: p.units(st.pass), keep: p.units(st.keep),
			reverse: p.units(st.back + st.reverse),
			carried: p.units(st.carried),
		}
		for _, o := range st.options {
			p.need[s].hold = append(p.need[s].hold, p.units(o.hold))
		}
	}
	for length := range n {
		for s := 0; s+length < n; s++ {
			p.solve(s, s+length)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return p
}

// units rounds up. Larger numbers than all memory become one unit more than that.
func (p *chainProgram) units(bytes int64) int {
	return int(min(chainSlots+1, (bytes+p.unit-1)/p.unit))
}

func (p *chainProgram) solve(s, t int) {
	base, own, carried := p.at(s, t, 0), p.need[s], p.need[t].carried
	for m := range chainSlots + 1 {
		p.cost[base+m] = chainNever
		skip := s == t && t < p.n-1 && !p.stages[s].reads // it does not run, unless it is the last
		if m < own.reverse || m < own.keep+carried && !skip {
			continue
		}
		p.begin[base+m] = -1
		if s == t {
			p.cost[base+m] = p.stages[s].cost
			if skip {
				p.cost[base+m] = 0
			}
			continue
		}
		for i, o := range p.stages[s].options {
			if m < own.hold[i] {
				continue
			}
			if all := p.stages[s].cost + o.cost + p.cost[p.at(s+1, t, m-own.hold[i])]; all < p.cost[base+m] {
				p.cost[base+m], p.begin[base+m] = all, int32(-1-i)
			}
		}
	}
	pass, cost := 0, int64(0)
	for k := s + 1; k <= t; k++ {
		before := p.need[k-1]
		if k-1 > s {
			pass = max(pass, before.pass+before.input)
		} else {
			pass = max(pass, before.pass)
		}
		cost += p.stages[k-1].cost
		left, right := p.at(s, k-1, 0), p.at(k, t, 0)
		for m := max(pass+carried, p.need[k].input); m <= chainSlots; m++ {
			if all := cost + p.cost[right+m-p.need[k].input] + p.cost[left+m]; all < p.cost[base+m] {
				p.cost[base+m], p.begin[base+m] = all, int32(k)
			}
		}
	}
}

// extras lists the extra runs of the best way to work through stages s to t. First says that the
// forward runs are the first ones.
func (p *chainProgram) extras(s, t, units int, first bool, into []Extra) []Extra {
	k := int(p.begin[p.at(s, t, units)])
	end := max(s+1, k)
	if !first {
		for x := p.starts[s]; x < p.starts[end]; x++ {
			before := p.g.latest(x, p.asked[t])
			if !p.fixed[x] && before >= p.g.From && before > x {
				into = append(into, Extra{Task: x, Before: before})
			}
		}
	}
	if k < 0 {
		if s < t {
			into = p.extras(s+1, t, units-p.need[s].hold[-1-k], first, into)
		}
		return p.rerun(s, -1-k, into)
	}
	into = p.extras(k, t, units-p.need[k].input, first, into)
	return p.extras(s, k-1, units, false, into)
}

// rerun adds the extra runs of option o of stage s, before its backward half.
func (p *chainProgram) rerun(s, o int, into []Extra) []Extra {
	for x := p.starts[s]; x < p.starts[s+1]; x++ {
		if !p.again[o][x] || p.fixed[x] || int(p.places[o][x]) >= len(p.g.Tasks) {
			continue
		}
		before := p.g.latest(x, max(p.asked[s], p.places[o][x]))
		if before >= p.g.From && before > x {
			into = append(into, Extra{Task: x, Before: before})
		}
	}
	return into
}

// fit tries amounts of memory for the program until the peak is just within the budget: its figures
// are estimates.
func (c *chain) fit(ctx context.Context, budget int64) (best []Extra, cost int64) {
	p := newChainProgram(ctx, c, budget+budget/4)
	cost = math.MaxInt64
	if p == nil {
		return nil, cost
	}
	for low, high := 0, chainSlots+1; low < high && ctx.Err() == nil; {
		units := (low + high) / 2
		if p.cost[p.at(0, p.n-1, units)] >= chainNever {
			low = units + 1
			continue
		}
		extras := c.g.neededExtras(p.extras(0, p.n-1, units, true, nil))
		out, err := c.g.Simulate(extras)
		if err != nil || out.Peak > budget {
			high = units
			continue
		}
		if low = units + 1; out.Cost < cost {
			best, cost = extras, out.Cost
		}
	}
	return best, cost
}

// neededExtras drops the extra runs without a reader before the next run of the task.
func (g *Graph) neededExtras(extras []Extra) []Extra {
	extras = SortExtras(extras)
	wanted := make([]bool, len(g.Values))
	kept, next := len(extras), len(extras)-1
	for t := int32(len(g.Tasks)) - 1; t >= 0; t-- {
		g.passTask(t, wanted)
		for ; next >= 0 && extras[next].Before == t; next-- {
			needed := false
			for _, v := range g.Tasks[extras[next].Task].Makes {
				needed = needed || wanted[v]
			}
			if needed {
				g.passTask(extras[next].Task, wanted)
				kept--
				extras[kept] = extras[next]
			}
		}
	}
	return extras[kept:]
}

// passTask notes the values wanted before a run, walking back in time.
func (g *Graph) passTask(t int32, wanted []bool) {
	for _, v := range g.Tasks[t].Makes {
		wanted[v] = false
	}
	for _, u := range g.Tasks[t].Uses {
		wanted[u] = true
	}
}
