package autograd

// shapeRules: operators that move data.
var shapeRules = []Row{}
