package op

// DomainMemopt is the domain of operators of memopt's own.
const DomainMemopt = "memopt"

// rankRows are the operators of a job whose ranks (package collective) work on one step. They have no
// definition by other operators: only an executor that is one of several ranks can run them.
//
// An operation begins in the memory of its Start's output, which is undefined until CollectiveWait has
// waited for it. All ranks begin the same operations in the same order, so these nodes keep their
// sequence; their class says that they have side effects.
var rankRows = []Info{
	own(AllGatherStart, "AllGatherStart", exactly(1), exactly(1), Never, allGatherRule, flops(noFLOPs),
		pending),
	own(AllReduceStart, "AllReduceStart", exactly(2), exactly(1), Never, rankSumRule(false), inPlace(0),
		pending),
	own(CollectiveWait, "CollectiveWait", exactly(1), exactly(1), Never, waitRule, inPlace(0), flops(noFLOPs)),
	own(RankPiece, "RankPiece", Arity{1, -1}, exactly(1), Cheap, rankPieceRule, flops(noFLOPs)),
	own(ReduceScatterStart, "ReduceScatterStart", exactly(2), exactly(1), Never, rankSumRule(true), inPlace(0),
		pending),
	own(Unpack, "Unpack", exactly(2), exactly(1), Cheap, unpackRule, inPlace(1), flops(noFLOPs)),
}

// copyRows are copies of values between the device's memory and the host's, which run beside the nodes in
// between. Offload and Reload begin a copy in the memory of their output, which is undefined until a Wait
// has waited for it: Wait's output is its first input, once the copy has ended, and its other inputs keep
// their memory until then. A value that lies in the host's memory has no other readers than Wait and Reload.
// For example, h = Offload(x), g = Wait(h, x), y = Reload(g), z = Wait(y, g).
//
// They have no definition by other operators: elsewhere such a graph would take the memory that it saves.
var copyRows = []Info{
	own(Offload, "Offload", exactly(1), exactly(1), Never, dense(like(0)), transfer(ToHost), flops(noFLOPs)),
	own(Reload, "Reload", exactly(1), exactly(1), Never, dense(like(0)), transfer(FromHost), flops(noFLOPs)),
	own(Wait, "Wait", Arity{1, -1}, exactly(1), Never, dense(like(0)), transfer(Awaits), flops(noFLOPs),
		func(r *Info) { r.View = true }),
}

// memoptRows are operators that memopt writes into graphs where neither ONNX nor ONNX Runtime has a
// fitting one. Files define them as functions of operators that others know: see Define.
//
// Both add a product of stacks of matrices to C, which has the shape of the result, as Gemm does for
// two matrices: each chunk of a sum continues from the sum of the chunks before it.
var memoptRows = []Info{
	own(FusedMatMulAdd, "FusedMatMulAdd", exactly(3), exactly(1), Expensive, matMulAddRule(fusedMatMulRule),
		factors(matMulAddFactors(fusedMatMulFactors)), inPlace(2), throughout(0, 1), flops(fusedMatMulFLOPs)),
	own(MatMulAdd, "MatMulAdd", exactly(3), exactly(1), Expensive, matMulAddRule(matMulRule),
		factors(matMulAddFactors(matMulFactors)), inPlace(2), throughout(0, 1), flops(matMulFLOPs)),
}

// lowBitRows are optimizers whose states have few bits, and a rounding of weights. Like memoptRows, files define them.
var lowBitRows = []Info{
	own(Adam4bit, "Adam4bit", exactly(11), exactly(5), Never, lowBitAdamRule(4, false), role(Gradient),
		states(lowBitStates...)),
	own(Adam8bit, "Adam8bit", exactly(11), exactly(5), Never, lowBitAdamRule(8, false), role(Gradient),
		states(lowBitStates...)),
	own(StochasticAdam4bit, "StochasticAdam4bit", exactly(12), exactly(5), Never, lowBitAdamRule(4, true),
		role(Gradient), states(lowBitStates...)),
	own(StochasticAdam8bit, "StochasticAdam8bit", exactly(12), exactly(5), Never, lowBitAdamRule(8, true),
		role(Gradient), states(lowBitStates...)),
	own(StochasticRound, "StochasticRound", exactly(2), exactly(1), Never, stochasticRoundRule),
}

// definitions are the functions of memoptRows and lowBitRows, in the text format of package graph. They import the
// operator set of the model that they are written to in place of this one.
var definitions = productDefinitions + lowBitAdamDefinition(4, false) + lowBitAdamDefinition(8, false) +
	lowBitAdamDefinition(4, true) + lowBitAdamDefinition(8, true) + stochasticRoundDefinition()

const productDefinitions = `<ir_version: 8, opset_import: ["": 13]>
definitions () => () {}

<domain: "memopt", opset_import: ["": 13]>
MatMulAdd (A, B, C) => (Y) {
  AB = MatMul (A, B)
  Y = Add (AB, C)
}

<domain: "memopt", opset_import: ["": 13, "com.microsoft": 1]>
FusedMatMulAdd <alpha, transA, transB> (A, B, C) => (Y) {
  AB = com.microsoft.FusedMatMul <alpha: float = @alpha, transA: int = @transA, transB: int = @transB> (A, B)
  Y = Add (AB, C)
}
`
