package cpu

// productRows: products of matrices and attention.
var productRows = []Row{}
