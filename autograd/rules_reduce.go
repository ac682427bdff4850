package autograd

// reduceRules: reductions, sorts and scans.
var reduceRules = []Row{}
