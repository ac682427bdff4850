package op

var nnRows []Info
