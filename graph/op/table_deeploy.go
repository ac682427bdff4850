package op

var deeployRows = []Info{}
