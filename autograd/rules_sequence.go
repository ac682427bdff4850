package autograd

import "memopt/graph/op"

// sequenceRules: recurrences, control flow, sequences and optionals.
var sequenceRules = []Row{
	{Kind: op.ConcatFromSequence, Rule: noSequences, Expand: concatFromSequenceExpand},
	{Kind: op.GRU, Rule: recurrenceRule(gruGates, gruCell)},
	{Kind: op.If, Rule: ifRule},
	{Kind: op.LSTM, Rule: recurrenceRule(lstmGates, lstmCell)},
	{Kind: op.Loop, Rule: loopRule,
		Sequence: sequence{joined: (*Ctx).joinedRows, tidy: (*joint).dropCollections}},
	{Kind: op.Optional, Rule: noSequences},
	{Kind: op.OptionalGetElement, Rule: noSequences},
	{Kind: op.OptionalHasElement, None: "it returns a bool"},
	{Kind: op.RNN, Rule: recurrenceRule(rnnGates, rnnCell)},
	{Kind: op.Scan, Rule: scanRule},
	{Kind: op.SequenceAt, Rule: noSequences, Expand: sequenceAtExpand},
	{Kind: op.SequenceConstruct, Rule: noSequences,
		Sequence: sequence{made: true, joined: (*Ctx).joinedTensors, part: (*Ctx).listedTensor}},
	{Kind: op.SequenceEmpty, None: "it has no inputs", Sequence: sequence{made: true, empty: true}},
	{Kind: op.SequenceErase, Rule: noSequences},
	{Kind: op.SequenceInsert, Rule: noSequences, Sequence: sequence{inserts: true}},
	{Kind: op.SequenceLength, None: "it returns an integer"},
	{Kind: op.SplitToSequence, Rule: noSequences, Sequence: sequence{made: true, part: (*Ctx).splitPart}},
}
