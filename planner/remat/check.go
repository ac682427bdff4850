package remat

import "fmt"

// Check verifies a schedule against the instance from first principles, as a second opinion on
// Simulate: it keeps the set of live nodes and adds up their bytes anew at every compute while that
// set is small, else now and then. The peak must be within the budget, and cost and peak must be as
// announced.
func Check(in *Instance, s *Schedule) error {
	c := checker{in: in, at: make([]int32, len(in.Nodes)), ever: make([]bool, len(in.Nodes))}
	for i, step := range s.Steps {
		if step.Node < 0 || int(step.Node) >= len(in.Nodes) {
			return fmt.Errorf("remat: check: step %d: no node at position %d", i, step.Node)
		}
		do := c.compute
		if step.Free {
			do = c.free
		}
		if err := do(step.Node, i); err != nil {
			return fmt.Errorf("remat: check: step %d, node %s: %w", i, in.id(int(step.Node)), err)
		}
	}
	switch {
	case c.computed != len(in.Nodes):
		return fmt.Errorf("remat: check: %d of %d nodes were computed", c.computed, len(in.Nodes))
	case c.cost != s.Cost:
		return fmt.Errorf("remat: check: the cost is %d, but %d was announced", c.cost, s.Cost)
	case c.peak != s.Peak:
		return fmt.Errorf("remat: check: the peak is %d, but %d was announced", c.peak, s.Peak)
	case c.peak > in.Budget:
		return fmt.Errorf("remat: check: the peak of %d is above the budget of %d", c.peak, in.Budget)
	}
	return nil
}

// checker holds the live nodes.
type checker struct {
	in         *Instance
	live       []int32
	at         []int32   // by node: its place in live, from 1 on; 0 where it is not live
	ever       []bool    // by node: it was computed
	aliases    [][]int32 // by node: those that share its memory; made at the first free
	computed   int
	bytes      int64
	cost, peak int64
}

// Up to recountBelow live nodes, all bytes are added up at each compute; above, at every 1024th
// step.
const recountBelow = 256

func (c *checker) compute(v int32, at int) error {
	node := &c.in.Nodes[v]
	if c.at[v] > 0 {
		return fmt.Errorf("it is computed while live")
	}
	for _, u := range node.Inputs {
		if c.at[u] == 0 {
			return fmt.Errorf("input %s is missing", c.in.id(int(u)))
		}
	}
	c.live = append(c.live, v)
	c.at[v] = int32(len(c.live))
	if !c.ever[v] {
		c.ever[v] = true
		c.computed++
	}
	c.bytes += c.own(v)
	if len(c.live) <= recountBelow || at%1024 == 0 {
		sum := int64(0)
		for _, u := range c.live {
			sum += c.own(u)
		}
		if sum != c.bytes {
			return fmt.Errorf("%d bytes are live, but %d were counted", sum, c.bytes)
		}
	}
	c.cost += node.Cost
	c.peak = max(c.peak, c.bytes+node.Workspace)
	return nil
}

// own is the bytes of a node's output that are not another node's.
func (c *checker) own(v int32) int64 {
	if c.in.Nodes[v].Alias != -1 {
		return 0
	}
	return c.in.Nodes[v].Size
}

func (c *checker) free(v int32, _ int) error {
	if c.at[v] == 0 {
		return fmt.Errorf("it is freed while not live")
	}
	if c.in.Nodes[v].Keep {
		return fmt.Errorf("it is freed, but must be kept")
	}
	if w, ok := c.shared(v); ok {
		return fmt.Errorf("it is freed while node %s shares its memory", c.in.id(int(w)))
	}
	last := c.live[len(c.live)-1]
	c.live[c.at[v]-1], c.at[last] = last, c.at[v]
	c.live, c.at[v] = c.live[:len(c.live)-1], 0
	c.bytes -= c.own(v)
	return nil
}

// shared looks for a live node that shares the memory of v.
func (c *checker) shared(v int32) (int32, bool) {
	if c.aliases == nil {
		c.aliases = make([][]int32, len(c.in.Nodes))
		for w := range c.in.Nodes {
			if u := c.in.Nodes[w].Alias; u != -1 {
				c.aliases[u] = append(c.aliases[u], int32(w))
			}
		}
	}
	for _, w := range c.aliases[v] {
		if c.at[w] > 0 {
			return w, true
		}
	}
	return 0, false
}
