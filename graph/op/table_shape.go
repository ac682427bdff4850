package op

var shapeRows = []Info{}
