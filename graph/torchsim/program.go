package torchsim

import (
	"memopt/graph"
	"memopt/graph/modules"
)

// StorageID indexes Program.Storages.
type StorageID int32

// none stands for no storage: numbers that the host computes with, and gradients that are not there.
const none StorageID = -1

// Storage is memory that tensors share: a tensor and all views of it.
type Storage struct {
	Bytes int64
	// Held: it is there before the step and after it, a parameter, a buffer or an input.
	Held bool
	// Kept: it is made in the step and stays, the gradient of a parameter.
	Kept bool
}

// Step is one operator of ATen, or the backward of one.
type Step struct {
	Op       string // as ATen names it
	Node     graph.NodeID
	Call     int32 // the innermost call of a module that it is of (modules.Tree.Calls), -1: of none
	Backward bool
	Of       int32 // of a backward step: the forward step whose backward it is
	Reads    []StorageID
	Makes    []StorageID
	Work     int64   // bytes that it takes beside them while it runs
	Saves    bool    // of a backward step: it reads tensors that autograd saved
	Random   bool    // it draws random numbers
	Moves    bool    // it moves running statistics
	Seconds  float64 // of a forward step
}

// Program is a training step as PyTorch runs it.
type Program struct {
	Tree     *modules.Tree
	Storages []Storage
	Steps    []Step
	Backward int   // the first backward step
	Held     int64 // bytes of parameters, buffers and inputs
	Seconds  float64
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
