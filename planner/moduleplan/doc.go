// Package moduleplan chooses which modules of a PyTorch program to recompute in the backward half, as
// torch.utils.checkpoint does it, so that a step fits a budget at the least cost.
//
// The program is cut into units: the blocks that a model repeats, such as h.0 and h.1, and the stretches
// between them. Each unit has options: recompute no module, the whole unit, or some of its parts. If
// units form a chain, so that each unit's output is read by itself and the next alone, the peak is a
// maximum of sums of terms of neighbouring units, and dynamic programming over units finds the cheapest
// choice of options (chain.go). Else all choices are tried if they are few; if they are many, a local
// search on the simulator's peaks starts from the best simple choices (local.go).
package moduleplan
