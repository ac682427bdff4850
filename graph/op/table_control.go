package op

// controlRows are control flow, sequences and optionals. A control-flow node is never made again:
// its price is that of all it holds, and its bodies may draw random numbers.
var controlRows = []Info{
	{Kind: ConcatFromSequence, Name: "ConcatFromSequence", Since: []int{11}, Inputs: Arity{1, 1}, Outputs: Arity{1, 1},
		Infer: concatFromSequenceRule, Class: Cheap, FLOPs: noFLOPs},
	{Kind: If, Name: "If", Since: []int{1, 11, 13, 16, 19, 21, 23, 24, 25}, Inputs: Arity{1, 1}, Outputs: Arity{1, -1},
		Infer: ifRule, Class: Never, FLOPs: ifFLOPs, Control: Branches, NonDiff: []int{0}},
	{Kind: Loop, Name: "Loop", Since: []int{1, 11, 13, 16, 19, 21, 23, 24, 25}, Inputs: Arity{2, -1}, Outputs: Arity{1, -1},
		Infer: loopRule, Class: Never, FLOPs: loopFLOPs, Control: Loops, NonDiff: []int{0, 1}},
	{Kind: Optional, Name: "Optional", Since: []int{15}, Inputs: Arity{0, 1}, Outputs: Arity{1, 1},
		Infer: optionalRule, Class: Cheap, FLOPs: noFLOPs},
	{Kind: OptionalGetElement, Name: "OptionalGetElement", Since: []int{15, 18}, Inputs: Arity{1, 1}, Outputs: Arity{1, 1},
		Infer: optionalGetElementRule, Class: Cheap, FLOPs: noFLOPs},
	{Kind: OptionalHasElement, Name: "OptionalHasElement", Since: []int{15, 18}, Inputs: Arity{0, 1}, Outputs: Arity{1, 1},
		Infer: optionalHasElementRule, Class: Cheap, FLOPs: noFLOPs, NonDiff: []int{0}},
	{Kind: Scan, Name: "Scan", Since: []int{8, 9, 11, 16, 19, 21, 23, 24, 25}, Inputs: Arity{1, -1}, Outputs: Arity{1, -1},
		Infer: scanRule, Class: Never, FLOPs: scanFLOPs, Control: Scans},
	{Kind: SequenceAt, Name: "SequenceAt", Since: []int{11}, Inputs: Arity{2, 2}, Outputs: Arity{1, 1},
		Infer: sequenceAtRule, Class: Cheap, FLOPs: noFLOPs, NonDiff: []int{1}},
	{Kind: SequenceConstruct, Name: "SequenceConstruct", Since: []int{11}, Inputs: Arity{1, -1}, Outputs: Arity{1, 1},
		Infer: sequenceConstructRule, Class: Cheap, FLOPs: noFLOPs},
	{Kind: SequenceEmpty, Name: "SequenceEmpty", Since: []int{11}, Inputs: Arity{0, 0}, Outputs: Arity{1, 1},
		Infer: sequenceEmptyRule, Class: Cheap, FLOPs: noFLOPs},
	{Kind: SequenceErase, Name: "SequenceErase", Since: []int{11}, Inputs: Arity{1, 2}, Outputs: Arity{1, 1},
		Infer: sequenceEraseRule, Class: Cheap, FLOPs: noFLOPs, NonDiff: []int{1}},
	{Kind: SequenceInsert, Name: "SequenceInsert", Since: []int{11}, Inputs: Arity{2, 3}, Outputs: Arity{1, 1},
		Infer: sequenceInsertRule, Class: Cheap, FLOPs: noFLOPs, NonDiff: []int{2}},
	{Kind: SequenceLength, Name: "SequenceLength", Since: []int{11}, Inputs: Arity{1, 1}, Outputs: Arity{1, 1},
		Infer: sequenceLengthRule, Class: Cheap, FLOPs: noFLOPs, NonDiff: []int{0}},
	{Kind: SplitToSequence, Name: "SplitToSequence", Since: []int{11, 24}, Inputs: Arity{1, 2}, Outputs: Arity{1, 1},
		Infer: splitToSequenceRule, Class: Cheap, FLOPs: noFLOPs, NonDiff: []int{1}},
}
