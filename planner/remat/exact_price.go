package remat

// priceCut is the flow of one momentCut as a bound for all states: a list of paths, each with a set
// of values and an amount. Let N be the values wanted in a state or read by first runs left behind
// t. A path that meets N, cut off before its last value in N, is a flow from the needs of N; all
// these together are a flow for the state, and so a bound on its extra runs at the price of the
// cut.
//
// If a state wants x and an extra run of x is put before it, the new state wants the inputs of x.
// Each path that met N in x alone either ends with x, and these amount to no more than the cost of
// x, or goes on to an input of x. So the bound falls by no more than that cost: it is consistent,
// as A* requires.
type priceCut struct {
	t       int32
	scale   int
	penalty int64 // the price of the bytes that are free
	before  int64 // proved of the extra runs before t
	paths   []pricePath
	hits    int64 // how often it was the best
}

type pricePath struct {
	values nodeSet
	amount int64
}

// bound is the cut's bound on the extra runs before a state. read is the values read by first runs
// left behind t.
func (c *priceCut) bound(wanted, read *nodeSet) int64 {
	demand, sum := wanted.union(read), -c.penalty
	for i := range c.paths {
		if c.paths[i].values.meets(&demand) {
			sum += c.paths[i].amount
		}
	}
	if sum <= 0 {
		return c.before
	}
	return shiftUp(sum, c.scale) + c.before
}

// takeApart splits the flow that was computed last into paths. The values of the graph must have
// the numbers of their tasks.
func (c *momentCut) takeApart(paths []pricePath) []pricePath {
	f := c.net
	c.rest = c.rest[:0]
	for a := range f.room {
		c.rest = append(c.rest, f.room[a^1]*int64(1-a&1)) // the flow, along the arcs themselves only
	}
	copy(f.cur, f.head)
	for {
		f.walk = f.walk[:0]
		amount, path := flowEndless, pricePath{}
		for at := int32(flowSource); at != flowSink; {
			a := f.cur[at]
			for a >= 0 && c.rest[a] == 0 {
				a = f.next[a]
			}
			if f.cur[at] = a; a < 0 {
				return paths // only the source can run dry
			}
			amount = min(amount, c.rest[a])
			f.walk = append(f.walk, a)
			if at = f.to[a]; at >= 2 && at < 2+c.t {
				path.values.add(at - 2)
			}
		}
		for _, a := range f.walk {
			c.rest[a] -= amount
		}
		path.amount = amount
		paths = append(paths, path)
		c.steps += int64(len(f.walk))
	}
}
