package op

var microsoftRows []Info
