package cpu

// reduceRows: reductions, scans and sorts.
var reduceRows = []Row{}
