// Package fit answers how large a training step can be made, or how small a device can be, so that
// the step fits.
//
// A step fits where its total does: inputs and weights, and the arena, packed, of everything else.
// The largest size is found by algebra. The peak of live bytes is a formula over all sizes (package
// planner/envelope), which is an exact integer bisection away from the largest size at which it and
// the inputs keep within the limit. An arena is at least as large as what lives at once; so the size
// is then packed, and where rounding and gaps take too much, the next smaller ones are.
//
// The same goes for plans, since a plan's placements are a program, too, with a formula of its own:
// placements that were found at one size say at once how far they reach, and only beyond that a plan
// is looked for anew. Every answer is verified: the size fits as planned, and one above it does not.
// For plans that are searched the latter means that no plan was found.
package fit
