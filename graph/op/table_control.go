package op

// controlRows are control flow, sequences and optionals. A control-flow node is never recomputed:
// its price is that of its whole body, and its bodies may draw random numbers.
var controlRows = []Info{
	define(ConcatFromSequence, "ConcatFromSequence", versions(11), exactly(1), exactly(1), Cheap,
		concatFromSequenceRule, flops(noFLOPs)),
	define(If, "If", versions(1, 11, 13, 16, 19, 21, 23, 24, 25), exactly(1), Arity{1, -1}, Never, ifRule,
		control(Branches), flops(ifFLOPs)),
	define(Loop, "Loop", versions(1, 11, 13, 16, 19, 21, 23, 24, 25), Arity{2, -1}, Arity{1, -1}, Never, loopRule,
		control(Loops), flops(loopFLOPs)),
	define(Optional, "Optional", versions(15), Arity{0, 1}, exactly(1), Cheap, optionalRule, flops(noFLOPs)),
	define(OptionalGetElement, "OptionalGetElement", versions(15, 18), exactly(1), exactly(1), Cheap,
		optionalGetElementRule, flops(noFLOPs)),
	define(OptionalHasElement, "OptionalHasElement", versions(15, 18), Arity{0, 1}, exactly(1), Cheap,
		optionalHasElementRule, flops(noFLOPs)),
	define(Scan, "Scan", versions(8, 9, 11, 16, 19, 21, 23, 24, 25), Arity{1, -1}, Arity{1, -1}, Never, scanRule,
		control(Scans), flops(scanFLOPs)),
	define(SequenceAt, "SequenceAt", versions(11), exactly(2), exactly(1), Cheap, sequenceAtRule, flops(noFLOPs)),
	define(SequenceConstruct, "SequenceConstruct", versions(11), Arity{1, -1}, exactly(1), Cheap,
		sequenceConstructRule, flops(noFLOPs)),
	define(SequenceEmpty, "SequenceEmpty", versions(11), exactly(0), exactly(1), Cheap, sequenceEmptyRule,
		flops(noFLOPs)),
	define(SequenceErase, "SequenceErase", versions(11), Arity{1, 2}, exactly(1), Cheap, sequenceEraseRule,
		flops(noFLOPs)),
	define(SequenceInsert, "SequenceInsert", versions(11), Arity{2, 3}, exactly(1), Cheap, sequenceInsertRule,
		flops(noFLOPs)),
	define(SequenceLength, "SequenceLength", versions(11), exactly(1), exactly(1), Cheap, sequenceLengthRule,
		flops(noFLOPs)),
	define(SplitToSequence, "SplitToSequence", versions(11, 24), Arity{1, 2}, exactly(1), Cheap, splitToSequenceRule,
		flops(noFLOPs)),
}
