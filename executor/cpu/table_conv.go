package cpu

// convRows: convolutions, pools and vision.
var convRows = []Row{}
