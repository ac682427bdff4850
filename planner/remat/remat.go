// Package remat solves the abstract recomputation problem: run every node of a graph at
// least once within a budget of bytes, as cheaply as possible, where a value may be
// thrown away and computed again later.
//
// Computing a node needs all its inputs live. While it is computed, all live values, its own output and its
// workspace count. Anything live may be freed at any time, and a node that is not live may be recomputed. At
// the end only the nodes marked Keep must be live. The cost of a schedule is the sum of the costs of its
// computes.
//
// Answers of Solve keep the given order for the first compute of each node, as Checkmate
// (https://arxiv.org/abs/1910.02653) and Moccasin (https://arxiv.org/abs/2304.14463) do; bounds and proofs
// hold for such schedules. Problem is the general form: its nodes make any number of values, and its search
// tries other orders as well.
//
// A schedule is fully described by its computes: a value is freed best right after the last use before its
// next compute. For example, in 0 1 2 1 3 node 1 is freed after node 2 if that reads it, else at once. Hence
// the search (see tape) works on sequences of computes, and frees are put in at the end (see withFrees).
//
// Graph is a more general form of the problem, that of training graphs, and Search solves it at any size: a
// ledger keeps the memory of a list of extra runs up to date after each change, constructions drop values
// level by level until the budget holds (see dropper), and a large neighbourhood search makes the list cheaper
// (see anneal in lns.go). Solve uses the tape for small instances, a Search for large ones, and both in turn
// in between.
//
// # Search
//
// A ledger keeps the memory of a list of extra runs up to date in logarithmic time (a segment tree over the
// places of first runs); constructions drop values at the worst run by the cost of their bytes; ruin and
// recreate with annealing improves. Small public instances are annealed as sequences of computes on a tape,
// searched exactly from the last run to the first (exact*.go, A*), and, where they are chains, solved by
// dynamic programming (chain*.go). The bound on the cost (bound*.go) is a minimum cut at one run: values held
// over it have a price per byte, the others are recomputed. Problem is the form of instances of version 2:
// fold takes its views out, an arm is a search in one order of first computes, cuts and chains are where it
// starts (arms.go), and schedules suggest further orders (reorder.go). Its bounds hold in any order
// (bound_any.go).
package remat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Node is one computation with one output. Inputs are positions of earlier nodes, each once.
type Node struct {
	Cost, Size int64
	Inputs     []int32
	Keep       bool  // the output stays live to the end once it is made
	Workspace  int64 // bytes that count only while the node is computed

	// Alias is the input whose memory the output shares, or -1. Such an output has no bytes
	// of its own, whatever Size says, and its source cannot be freed before it.
	Alias int32
}

// Instance is a problem: the nodes in a topological order and the bytes they may use.
type Instance struct {
	Name   string
	Budget int64
	Nodes  []Node
	// IDs are the nodes' names in files, in JSON: 7 or "a". nil: they are the positions.
	IDs []string
}

// id is the name of node v in JSON.
func (in *Instance) id(v int) string {
	if v < len(in.IDs) {
		return in.IDs[v]
	}
	return strconv.Itoa(v)
}

// Step computes or frees a node.
type Step struct {
	Free bool
	Node int32
}

// Schedule is a sequence of steps with the cost and the peak that they have.
type Schedule struct {
	Steps      []Step
	Cost, Peak int64
}

// ErrInfeasible means that no schedule within the budget was found. Errors of this
// kind are of type *InfeasibleError.
var ErrInfeasible = errors.New("remat: no schedule within the budget")

// InfeasibleError tells how far the search got.
type InfeasibleError struct {
	Budget         int64
	LowestPeak     int64 // of any schedule that was found; 0 if the bound ruled all out before a search
	PeakLowerBound int64 // no schedule has a lower peak
}

func (e *InfeasibleError) Error() string {
	text := "remat: found no schedule"
	if e.Proved() {
		text = "remat: there is no schedule"
	}
	text += fmt.Sprintf(" within the budget of %d bytes (", e.Budget)
	if e.LowestPeak > 0 {
		text += fmt.Sprintf("lowest peak found %d, ", e.LowestPeak)
	}
	return text + fmt.Sprintf("every schedule needs %d)", e.PeakLowerBound)
}

// Proved tells whether it is certain that there is no schedule within the budget.
func (e *InfeasibleError) Proved() bool { return e.PeakLowerBound > e.Budget }

// Unwrap makes errors.Is(err, ErrInfeasible) true.
func (e *InfeasibleError) Unwrap() error { return ErrInfeasible }

// maxTotal bounds the sum of all costs and the sum of all bytes, so that no sum a solver
// forms can overflow.
const maxTotal = math.MaxInt64 >> 12

// mostNodes is how many nodes, and how many values, an instance may have.
const mostNodes = math.MaxInt32 / 8

// Validate names the first invalid node.
func (in *Instance) Validate() error {
	if in.Budget <= 0 {
		return fmt.Errorf("remat: the budget is %d bytes: it must be positive", in.Budget)
	}
	if len(in.Nodes) > math.MaxInt32/8 {
		return fmt.Errorf("remat: %d nodes are too many: at most %d", len(in.Nodes), math.MaxInt32/8)
	}
	var costs, bytes int64
	for v := range in.Nodes {
		if err := in.validateNode(v); err != nil {
			return fmt.Errorf("remat: node %s: %w", in.id(v), err)
		}
		n := &in.Nodes[v]
		if n.Cost > maxTotal-costs {
			return fmt.Errorf("remat: node %s: with its cost of %d all costs add up to more than %d",
				in.id(v), n.Cost, int64(maxTotal))
		}
		if n.Size > maxTotal-bytes || n.Workspace > maxTotal-bytes-n.Size {
			return fmt.Errorf("remat: node %s: with its size of %d all sizes add up to more than %d",
				in.id(v), n.Size, int64(maxTotal))
		}
		costs += n.Cost
		bytes += n.Size + n.Workspace
	}
	return nil
}

func (in *Instance) validateNode(v int) error {
	n := &in.Nodes[v]
	switch {
	case n.Cost <= 0:
		return fmt.Errorf("the cost is %d: it must be positive", n.Cost)
	case n.Size < 0 || n.Size == 0 && n.Alias < 0:
		return fmt.Errorf("the size is %d: it must be positive", n.Size)
	case n.Workspace < 0:
		return fmt.Errorf("the workspace is %d: it must not be negative", n.Workspace)
	case n.Alias >= 0 && !slices.Contains(n.Inputs, n.Alias):
		return fmt.Errorf("its alias %s is not one of its inputs", in.id(int(n.Alias)))
	}
	seen := slices.Clone(n.Inputs)
	slices.Sort(seen)
	for i, u := range seen {
		if u < 0 || int(u) >= v {
			return fmt.Errorf("the input at position %d does not come before it", u)
		}
		if i > 0 && seen[i-1] == u {
			return fmt.Errorf("the input %s appears twice", in.id(int(u)))
		}
	}
	return nil
}
