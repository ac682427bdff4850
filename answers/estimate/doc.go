// Package estimate answers before a run whether a training step fits in a device's memory, and
// which kinds of values fill it: by the plans that memopt makes and simulates, not by rules of
// thumb. Its figures for an unchanged step, and for its best plan, are those that memopt train
// promises for that step.
package estimate
