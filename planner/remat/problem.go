package remat

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Problem is the general form of an Instance: a computation makes any number of outputs, each freed
// by itself; costs are fractions; and first computes need not keep the given order.
//
// Values are numbered through: the outputs of the first computation from 0 on, then those of the
// next. Computing needs all inputs live. While it goes on, everything live counts, with the outputs
// and the workspace. A computation may be repeated when its outputs are free; those that are kept
// stay as they are then, and their second copies count during the computation only.
type Problem struct {
	Name     string
	Budget   int64 // bytes that no moment may exceed, Resident included; 0: the options name it
	Resident int64 // bytes that live throughout, such as those of parameters
	Unit     string
	InOrder  bool // first computes keep the given order; false: any order that the inputs allow
	Nodes    []Computation
}

// Computation is one node of a Problem.
type Computation struct {
	ID        string  // names it in errors; "": its position does
	Cost      float64 // of computing it once, at least 0
	Inputs    []int32 // values that earlier computations make, each once
	Outputs   []Output
	Workspace int64 // bytes that count only while it is computed
	Once      bool  // it must not be computed again: it is random, or others see it

	// View makes the outputs share the memory of the first input. They have no bytes of their own;
	// that memory stays as long as they are live, and when it is made anew, they are. A view that
	// is kept keeps it.
	View bool
	Stay bool            // its outputs never move to host memory
	Tags json.RawMessage // copied from a file to its answer; nil without tags
}

// Output is a value that a computation makes.
type Output struct {
	ID   string // names it in errors; "": its position does
	Size int64  // bytes, at least 0
	Keep bool   // it stays live to the end once it is made
}

// Simulate runs the steps and returns their cost and peak, as the rules of Problem say. A Step
// frees a value or computes a node. The error names the first step that is not allowed, or a
// computation that is never made. The budget plays no part.
func (p *Problem) Simulate(steps []Step) (cost float64, peak int64, err error) {
	s := NewSimulation(p)
	for i, step := range steps {
		do := s.Compute
		if step.Free {
			do = s.Free
		}
		if err := do(step.Node); err != nil {
			return 0, 0, fmt.Errorf("remat: step %d: %w", i, err)
		}
	}
	if cost, err = s.End(); err != nil {
		return 0, 0, err
	}
	return cost, s.Peak, nil
}

// Simulation is the state of a schedule as Simulate executes it, step by step.
type Simulation struct {
	*problemIndex
	kept  []bool
	live  []bool
	views []int32 // by value: live outputs that share its memory
	runs  []int64 // by node

	Bytes  int64 // live now
	During int64 // live during the newest compute
	Peak   int64
}

// NewSimulation is the state before the first step. The problem must be valid.
func NewSimulation(p *Problem) *Simulation {
	x := newProblemIndex(p)
	return &Simulation{problemIndex: x, kept: x.kept(), live: make([]bool, len(x.maker)),
		views: make([]int32, len(x.maker)),
		runs:  make([]int64, len(p.Nodes)), Bytes: p.Resident, Peak: p.Resident}
}

// Live tells whether a value is live.
func (s *Simulation) Live(u int32) bool { return s.live[u] }

// Compute computes a node. The error says which rule forbids it.
func (s *Simulation) Compute(v int32) error {
	if v < 0 || int(v) >= len(s.p.Nodes) {
		return fmt.Errorf("there is no node at position %d", v)
	}
	n := &s.p.Nodes[v]
	for _, u := range n.Inputs {
		if !s.live[u] {
			return fmt.Errorf("node %s is computed, whose input %s is not live", s.p.node(v), s.value(u))
		}
	}
	if n.Once && s.runs[v] > 0 {
		return fmt.Errorf("node %s is computed again, which it must not be", s.p.node(v))
	}
	copies, fresh := int64(0), len(n.Outputs) == 0
	for k, o := range n.Outputs {
		u := s.first[v] + int32(k)
		switch {
		case s.live[u] && !s.kept[u]:
			return fmt.Errorf("node %s is computed while its output %s is live", s.p.node(v), s.value(u))
		case s.live[u]:
			if !n.View {
				copies += o.Size
			}
			continue
		}
		s.live[u], fresh = true, true
		if n.View {
			s.views[n.Inputs[0]]++
		} else {
			s.Bytes += o.Size
		}
	}
	if !fresh {
		return fmt.Errorf("node %s is computed while all its outputs are live", s.p.node(v))
	}
	s.runs[v]++
	s.During = s.Bytes + copies + n.Workspace
	s.Peak = max(s.Peak, s.During)
	return nil
}

// Return makes a freed value live again without computing it. Views have no memory of their own that
// could return.
func (s *Simulation) Return(u int32) error {
	switch {
	case u < 0 || int(u) >= len(s.live):
		return fmt.Errorf("there is no value at position %d", u)
	case s.p.Nodes[s.maker[u]].View:
		return fmt.Errorf("value %s returns, which is a view", s.value(u))
	case s.live[u]:
		return fmt.Errorf("value %s returns, which is live", s.value(u))
	}
	s.live[u] = true
	s.Bytes += s.output(u).Size
	s.Peak = max(s.Peak, s.Bytes)
	return nil
}

// End is the cost of all computes. The error names a node that was never computed.
func (s *Simulation) End() (cost float64, err error) {
	for v := range s.p.Nodes {
		if s.runs[v] == 0 {
			return 0, fmt.Errorf("remat: node %s is never computed", s.p.node(int32(v)))
		}
		cost += float64(s.runs[v]) * s.p.Nodes[v].Cost
	}
	return cost, nil
}

// Free frees a value. The error says which rule forbids it.
func (s *Simulation) Free(u int32) error {
	if u < 0 || int(u) >= len(s.live) {
		return fmt.Errorf("there is no value at position %d", u)
	}
	n := &s.p.Nodes[s.maker[u]]
	o := &n.Outputs[u-s.first[s.maker[u]]]
	switch {
	case !s.live[u]:
		return fmt.Errorf("value %s is freed, which is not live", s.value(u))
	case s.kept[u]:
		return fmt.Errorf("value %s is freed, which must be kept", s.value(u))
	case s.views[u] > 0:
		return fmt.Errorf("value %s is freed, whose memory a live value shares", s.value(u))
	}
	s.live[u] = false
	if n.View {
		s.views[n.Inputs[0]]--
	} else {
		s.Bytes -= o.Size
	}
	return nil
}

// problemIndex finds values and their makers.
type problemIndex struct {
	p     *Problem
	first []int32 // by node: its first output; one more at the end
	maker []int32 // by value
}

func newProblemIndex(p *Problem) *problemIndex {
	x := &problemIndex{p: p, first: make([]int32, len(p.Nodes)+1)}
	for v := range p.Nodes {
		x.first[v] = int32(len(x.maker))
		for range p.Nodes[v].Outputs {
			x.maker = append(x.maker, int32(v))
		}
	}
	x.first[len(p.Nodes)] = int32(len(x.maker))
	return x
}

func (x *problemIndex) output(u int32) *Output {
	v := x.maker[u]
	return &x.p.Nodes[v].Outputs[u-x.first[v]]
}

// Values tells about the values of a problem by their numbers.
type Values struct {
	First []int32 // by node: its first output; one more at the end
	Maker []int32 // by value: the node that makes it
	Root  []int32 // by value: the one whose memory it shares, itself where it has its own
	Kept  []bool  // by value: it, or a view of it, stays to the end
}

// Values numbers the values of a valid problem.
func (p *Problem) Values() Values {
	x := newProblemIndex(p)
	return Values{First: x.first, Maker: x.maker, Root: x.roots(), Kept: x.kept()}
}

// value is the name of value u in messages.
func (x *problemIndex) value(u int32) string {
	if id := x.output(u).ID; id != "" {
		return strconv.Quote(id)
	}
	return strconv.Itoa(int(u))
}

// node is the name of node v in messages.
func (p *Problem) node(v int32) string {
	if id := p.Nodes[v].ID; id != "" {
		return strconv.Quote(id)
	}
	return strconv.Itoa(int(v))
}

// BaseCost is the cost of computing every node once.
func (p *Problem) BaseCost() float64 {
	sum := 0.0
	for v := range p.Nodes {
		sum += p.Nodes[v].Cost
	}
	return sum
}

// Validate names the first invalid node.
func (p *Problem) Validate() error {
	if p.Budget < 0 || p.Resident < 0 {
		return fmt.Errorf("remat: the budget is %d bytes, and %d of them live throughout: neither may be negative",
			p.Budget, p.Resident)
	}
	if p.Resident > maxTotal {
		return fmt.Errorf("remat: %d bytes live throughout: at most %d", p.Resident, int64(maxTotal))
	}
	c := problemCheck{problemIndex: newProblemIndex(p), bytes: p.Resident}
	if most := math.MaxInt32 / 8; len(p.Nodes) > most || len(c.maker) > most {
		return fmt.Errorf("remat: %d nodes with %d outputs are too many: at most %d", len(p.Nodes), len(c.maker), most)
	}
	c.read = make([]int32, len(c.maker))
	for v := range p.Nodes {
		if err := c.node(int32(v)); err != nil {
			return fmt.Errorf("remat: node %s: %w", p.node(int32(v)), err)
		}
	}
	return nil
}

// problemCheck is the state of Validate.
type problemCheck struct {
	*problemIndex
	read  []int32 // by value: one past the last node known to read it
	cost  float64
	bytes int64
}

func (c *problemCheck) node(v int32) error {
	n := &c.p.Nodes[v]
	if !(n.Cost >= 0) || math.IsInf(n.Cost, 1) {
		return fmt.Errorf("the cost is %g: it must be a number from 0 on", n.Cost)
	}
	if c.cost += n.Cost; math.IsInf(c.cost, 1) {
		return fmt.Errorf("with its cost of %g all costs add up to more than a number can hold", n.Cost)
	}
	if n.View && (len(n.Inputs) == 0 || len(n.Outputs) == 0) {
		return fmt.Errorf("it is a view with %d inputs and %d outputs: wanted some", len(n.Inputs), len(n.Outputs))
	}
	for _, u := range n.Inputs {
		switch {
		case u < 0 || u >= c.first[v]:
			return fmt.Errorf("its input at position %d does not come before it", u)
		case c.read[u] == v+1:
			return fmt.Errorf("its input %s appears twice", c.value(u))
		}
		c.read[u] = v + 1
	}
	if err := c.add("workspace", n.Workspace); err != nil {
		return err
	}
	for k := range n.Outputs {
		if err := c.add("size of output "+c.value(c.first[v]+int32(k)), n.Outputs[k].Size); err != nil {
			return err
		}
	}
	return nil
}

// add counts bytes.
func (c *problemCheck) add(field string, bytes int64) error {
	switch {
	case bytes < 0:
		return fmt.Errorf("the %s is %d bytes: it must not be negative", field, bytes)
	case bytes > maxTotal-c.bytes:
		return fmt.Errorf("with its %s of %d bytes all bytes add up to more than %d", field, bytes, int64(maxTotal))
	}
	c.bytes += bytes
	return nil
}

// kept tells by value whether it stays to the end: it is kept, or a view of it is.
func (x *problemIndex) kept() []bool {
	kept := make([]bool, len(x.maker))
	for u := len(kept) - 1; u >= 0; u-- {
		kept[u] = kept[u] || x.output(int32(u)).Keep
		if n := &x.p.Nodes[x.maker[u]]; kept[u] && n.View {
			kept[n.Inputs[0]] = true
		}
	}
	return kept
}

// roots returns by value the one whose memory it shares, itself where it has its own.
func (x *problemIndex) roots() []int32 {
	root := make([]int32, len(x.maker))
	for u := range root {
		root[u] = int32(u)
		if n := &x.p.Nodes[x.maker[u]]; n.View {
			root[u] = root[n.Inputs[0]]
		}
	}
	return root
}

// fractions of a cost: see scale.
const costBits = 50

// scale is the factor for costs before they are rounded to whole ones: a power of 2 that makes them
// add up to about 2^50, so that the total is right to a share of 10^-9 even of a million nodes.
// Costs that are whole and positive stay unchanged.
func (p *Problem) scale() float64 {
	whole := func(c Computation) bool { return c.Cost >= 1 && c.Cost == math.Trunc(c.Cost) || c.View && c.Cost == 0 }
	sum := p.BaseCost()
	if sum == 0 || sum <= 1<<costBits && !slices.ContainsFunc(p.Nodes, func(c Computation) bool { return !whole(c) }) {
		return 1
	}
	return fineScale(sum)
}

// fineScale is the factor that makes costs of that sum add up to about 2^costBits.
func fineScale(sum float64) float64 {
	_, exponent := math.Frexp(sum)
	return math.Ldexp(1, min(costBits-exponent, 1000))
}
