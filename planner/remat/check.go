package remat

import "fmt"

// Check verifies a schedule against the instance from first principles, as a second opinion on
// Simulate: it keeps the set of live nodes and adds up their bytes anew at every compute while that
// set is small, else now and then. The peak must be within the budget, and cost and peak must be as
// announced.
func Check(in *Instance, s *Schedule) error {
	c := checker{in: in, set: map[int32]int64{}, ever: map[int32]bool{}}
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
	case len(c.ever) != len(in.Nodes):
		return fmt.Errorf("remat: check: %d of %d nodes were computed", len(c.ever), len(in.Nodes))
	case c.cost != s.Cost:
		return fmt.Errorf("remat: check: the cost is %d, but %d was announced", c.cost, s.Cost)
	case c.peak != s.Peak:
		return fmt.Errorf("remat: check: the peak is %d, but %d was announced", c.peak, s.Peak)
	case c.peak > in.Budget:
		return fmt.Errorf("remat: check: the peak of %d is above the budget of %d", c.peak, in.Budget)
	}
	return nil
}

// checker holds the live nodes with the bytes they own.
type checker struct {
	in         *Instance
	set        map[int32]int64
	ever       map[int32]bool
	aliases    map[int32][]int32 // made at the first free
	bytes      int64
	cost, peak int64
}

// Up to recountBelow live nodes, all bytes are added up at each compute; above, at every 1024th
// step.
const recountBelow = 256

func (c *checker) compute(v int32, at int) error {
	node := c.in.Nodes[v]
	if _, ok := c.set[v]; ok {
		return fmt.Errorf("it is computed while live")
	}
	for _, u := range node.Inputs {
		if _, ok := c.set[u]; !ok {
			return fmt.Errorf("input %s is missing", c.in.id(int(u)))
		}
	}
	own := node.Size
	if node.Alias != -1 {
		own = 0
	}
	c.set[v], c.ever[v] = own, true
	c.bytes += own
	if len(c.set) <= recountBelow || at%1024 == 0 {
		sum := int64(0)
		for _, b := range c.set {
			sum += b
		}
		if sum != c.bytes {
			return fmt.Errorf("%d bytes are live, but %d were counted", sum, c.bytes)
		}
	}
	c.cost += node.Cost
	c.peak = max(c.peak, c.bytes+node.Workspace)
	return nil
}

func (c *checker) free(v int32, _ int) error {
	own, ok := c.set[v]
	if !ok {
		return fmt.Errorf("it is freed while not live")
	}
	if c.in.Nodes[v].Keep {
		return fmt.Errorf("it is freed, but must be kept")
	}
	if w, ok := c.shared(v); ok {
		return fmt.Errorf("it is freed while node %s shares its memory", c.in.id(int(w)))
	}
	delete(c.set, v)
	c.bytes -= own
	return nil
}

// shared looks for a live node that shares the memory of v.
func (c *checker) shared(v int32) (int32, bool) {
	if c.aliases == nil {
		c.aliases = map[int32][]int32{}
		for w, node := range c.in.Nodes {
			if node.Alias != -1 {
				c.aliases[node.Alias] = append(c.aliases[node.Alias], int32(w))
			}
		}
	}
	for _, w := range c.aliases[v] {
		if _, ok := c.set[w]; ok {
			return w, true
		}
	}
	return 0, false
}
