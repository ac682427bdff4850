package cpu

// moveRows: operators that move data, and their gradients.
var moveRows = []Row{}
