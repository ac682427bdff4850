// Package fit answers how large a training step can be made, or how small a device can be, so that
// the step fits.
//
// A step fits if its total does: inputs and weights, and the arena, packed, of everything else. The
// largest size is found by algebra. The peak of live bytes is a formula over all sizes (package
// planner/envelope), so exact integer bisection finds the largest size at which the peak and the
// inputs keep within the limit, for example batch=48. An arena is at least as large as the peak of
// live bytes; so the size is then packed, and if rounding and gaps take too much, the next smaller
// ones are.
//
// The same goes for plans, since a plan's placements are a program, too, with a formula of its own:
// it gives the largest size for placements that were found at one size, and only beyond that a new
// plan is searched for. Every answer is verified: the size fits as planned, and the next larger one
// does not. For plans that are searched the latter means that no plan was found.
package fit
