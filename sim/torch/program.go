package torch

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/modules"
)

// StorageID indexes Program.Storages.
type StorageID int32

// none stands for a missing storage: numbers that the host computes with, and missing gradients.
const none StorageID = -1

// Storage is memory that tensors share: a tensor and all views of it.
type Storage struct {
	Bytes int64
	// Held: it is there before the step and after it, a parameter, a buffer or an input.
	Held bool
	// Kept: it is made in the step and stays to its end: the gradient of a parameter, or an output that the program
	// keeps.
	Kept bool
	// Cached: torch.autocast keeps it until its context ends, which is the end of the forward half, or of the
	// recomputation: a parameter in the type that products are computed in (at::autocast::cached_cast).
	Cached bool
}

// Step is one operator of ATen, or the backward of one.
type Step struct {
	Op       string // as ATen names it
	Node     graph.NodeID
	Call     int32 // its innermost call of a module (modules.Tree.Calls); -1 outside of all calls
	Backward bool
	Of       int32 // of a backward step: the forward step whose backward it is
	Reads    []StorageID
	Makes    []StorageID
	Holds    []StorageID // they are there until it is done, though it does not read them; not in a second run
	Work     int64       // bytes that it takes beside them while it runs
	Saves    bool        // of a backward step: it reads tensors that autograd saved
	Random   bool        // it draws random numbers
	Moves    bool        // it moves running statistics
	Keeps    Keeping     // of a forward step, where Program.Early is set
	Packed   []Packed
	Seconds  float64 // of a forward step, and of a traced one
}

// Packed is a tensor that autograd saves for the backward of a traced step. Parameters are left out.
type Packed struct {
	Storage         StorageID
	Elements, Bytes int64
	Strided         bool // it is not contiguous
}

// Keeping says which of a forward step's tensors autograd saves.
type Keeping int8

// The kinds of Keeping. Inputs are saved before the step runs, results after it.
const (
	KeepsNothing Keeping = iota
	KeepsInputs
	KeepsResults
)

// Program is a training step as PyTorch runs it.
type Program struct {
	Tree     *modules.Tree
	Storages []Storage
	Steps    []Step
	Backward int   // the first backward step
	Held     int64 // bytes of parameters, buffers and inputs
	Seconds  float64
	// Stacked: a checkpoint in another one leaves its inputs to that one, which is then recomputed first, as from
	// PyTorch 2.1 on (_CheckpointFrame in torch/utils/checkpoint.py). Else it keeps them from the forward half on and
	// is recomputed by itself, as in PyTorch up to 2.0.
	Stacked bool
	// Early: the recomputation of a checkpoint stops once all tensors that autograd saves are made, as from
	// PyTorch 2.1 on (_StopRecomputationError in torch/utils/checkpoint.py). Step.Keeps says where that is.
	Early bool
}

// stacked reports whether checkpoints of a version of PyTorch are stacked. A version that is not known is a new one.
func stacked(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return true
	}
	return major > 2 || major == 2 && minor >= 1
}

// random reports whether the forward half draws random numbers. Checkpoints keep the state of the generator only then:
// a plan says so to memopt.torch.
func (p *Program) random() bool {
	return slices.ContainsFunc(p.Steps[:p.Backward], func(s Step) bool { return s.Random })
}

// Gradients are the gradients of parameters.
type Gradients struct {
	Bytes   int64 // of all
	Largest int64
	Count   int
}

// Gradients counts the gradients that the backward half leaves.
func (p *Program) Gradients() Gradients {
	g := Gradients{}
	for i := range p.Steps[p.Backward:] {
		for _, id := range p.Steps[p.Backward+i].Makes {
			if n := p.Storages[id].Bytes; p.Storages[id].Kept {
				g.Bytes, g.Largest, g.Count = g.Bytes+n, max(g.Largest, n), g.Count+1
			}
		}
	}
	return g
}

// Outputs is the bytes that the program keeps of the forward half, as outputs.
func (p *Program) Outputs() (n int64) {
	for i := range p.Steps[:p.Backward] {
		for _, id := range p.Steps[i].Makes {
			if p.Storages[id].Kept {
				n += p.Storages[id].Bytes
			}
		}
	}
	return n
}

// Accumulating is the program of a step whose gradients are added to those of steps before, as they are made
// (torch/csrc/autograd/functions/accumulate_grad.h). The sums are no part of it.
func (p *Program) Accumulating() *Program {
	q := *p
	q.Storages = slices.Clone(p.Storages)
	for i := range p.Steps[p.Backward:] {
		for _, id := range p.Steps[p.Backward+i].Makes {
			q.Storages[id].Kept = false
		}
	}
	return &q
}

// Saved is the bytes that autograd keeps between the halves: storages of the forward half that backward
// steps read, less those that are held anyhow.
func (p *Program) Saved() int64 {
	var total int64
	made := make([]bool, len(p.Storages))
	for i := range p.Steps[:p.Backward] {
		for _, s := range p.Steps[i].Makes {
			made[s] = true
		}
	}
	for i := range p.Steps[p.Backward:] {
		for _, s := range p.Steps[p.Backward+i].Reads {
			if made[s] {
				total += p.Storages[s].Bytes
				made[s] = false
			}
		}
	}
	return total
}
