package cpu

// quantRows: quantization, sequences and what has no kernel.
var quantRows = []Row{}
