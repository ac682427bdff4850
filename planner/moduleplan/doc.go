// Package moduleplan chooses which modules of a PyTorch program run again in the backward half, as
// torch.utils.checkpoint does it, so that a step fits a budget at the least cost.
//
// The program is cut into units: the blocks that a model repeats, with what lies between them. Each unit
// has options: nothing runs again, all of it does, or some of its parts do. Where units form a chain, so
// that what one makes is read by itself and the next alone, the peak is a maximum of sums of terms of
// neighbouring units, and dynamic programming over units finds the cheapest choice of options (chain.go).
// Else all choices are tried where they are few, and a local search on the simulator's peaks goes on from
// the best simple choices where they are many (local.go).
package moduleplan
