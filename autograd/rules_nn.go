package autograd

// nnRules: convolutions, pools, norms, softmaxes and losses.
var nnRules = []Row{}
