package cpu

// normRows: softmaxes, norms and losses, and their gradients.
var normRows = []Row{}
