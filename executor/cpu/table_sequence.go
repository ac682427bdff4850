package cpu

// sequenceRows: recurrences, random draws, optimizers.
var sequenceRows = []Row{}
