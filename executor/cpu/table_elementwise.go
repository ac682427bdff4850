package cpu

// elementwiseRows: elementwise arithmetic, logic and casts, and their gradients.
var elementwiseRows = []Row{}
