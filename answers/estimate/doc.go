// Package estimate answers before a run whether a training step fits in a device's memory, and what
// its memory is made of: by the plans that memopt makes and simulates, not by rules of thumb. What
// it says of a step as it is, and of its best plan, is what memopt train promises for that step.
package estimate
