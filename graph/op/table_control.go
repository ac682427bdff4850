package op

var controlRows []Info
