package autograd

// productRules: products of matrices and attention.
var productRules = []Row{}
