package autograd

import "memopt/graph/op"

// sequenceRules: recurrences and control flow.
var sequenceRules = []Row{
	{Kind: op.If, Rule: ifRule},
	{Kind: op.Loop, Rule: loopRule},
	{Kind: op.Scan, Rule: scanRule},
	{Kind: op.GRU, Rule: recurrenceRule(gruGates, gruCell)},
	{Kind: op.LSTM, Rule: recurrenceRule(lstmGates, lstmCell)},
	{Kind: op.RNN, Rule: recurrenceRule(rnnGates, rnnCell)},
}
