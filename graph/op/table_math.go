package op

var mathRows = []Info{}
