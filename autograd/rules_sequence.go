package autograd

// sequenceRules: recurrences and control flow.
var sequenceRules = []Row{}
