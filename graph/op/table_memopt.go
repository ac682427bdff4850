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
	{Kind: AllGatherStart, Domain: DomainMemopt, Name: "AllGatherStart", Since: []int{1}, Inputs: exactly(1),
		Outputs: exactly(1), Infer: allGatherRule, Class: Never, FLOPs: noFLOPs},
	{Kind: AllReduceStart, Domain: DomainMemopt, Name: "AllReduceStart", Since: []int{1}, Inputs: exactly(2),
		Outputs: exactly(1), Infer: rankSumRule(false), Class: Never, InPlace: []int{0}},
	{Kind: CollectiveWait, Domain: DomainMemopt, Name: "CollectiveWait", Since: []int{1}, Inputs: exactly(1),
		Outputs: exactly(1), Infer: waitRule, Class: Never, InPlace: []int{0}, FLOPs: noFLOPs},
	{Kind: RankPiece, Domain: DomainMemopt, Name: "RankPiece", Since: []int{1}, Inputs: Arity{1, -1},
		Outputs: exactly(1), Infer: rankPieceRule, Class: Cheap, FLOPs: noFLOPs},
	{Kind: ReduceScatterStart, Domain: DomainMemopt, Name: "ReduceScatterStart", Since: []int{1},
		Inputs: exactly(2), Outputs: exactly(1), Infer: rankSumRule(true), Class: Never, InPlace: []int{0}},
	{Kind: Unpack, Domain: DomainMemopt, Name: "Unpack", Since: []int{1}, Inputs: exactly(2), Outputs: exactly(1),
		Infer: unpackRule, Class: Cheap, InPlace: []int{1}, FLOPs: noFLOPs},
}

// memoptRows are operators that memopt writes into graphs where neither ONNX nor ONNX Runtime has a
// fitting one. Files define them as functions of operators that others know: see Define.
//
// Both add a product of stacks of matrices to C, which has the shape of the result, as Gemm does for
// two matrices: each chunk of a sum continues from the sum of the chunks before it.
var memoptRows = []Info{
	{Kind: FusedMatMulAdd, Domain: DomainMemopt, Name: "FusedMatMulAdd", Since: []int{1}, Inputs: exactly(3),
		Outputs: exactly(1),
		Infer:   matMulAddRule(fusedMatMulRule), Factors: matMulAddFactors(fusedMatMulFactors), Class: Expensive,
		FLOPs: fusedMatMulFLOPs, InPlace: []int{2}, Throughout: []int{0, 1}},
	{Kind: MatMulAdd, Domain: DomainMemopt, Name: "MatMulAdd", Since: []int{1}, Inputs: exactly(3),
		Outputs: exactly(1),
		Infer:   matMulAddRule(matMulRule), Factors: matMulAddFactors(matMulFactors), Class: Expensive,
		FLOPs: matMulFLOPs, InPlace: []int{2}, Throughout: []int{0, 1}},
}

// definitions are the functions of memoptRows, in the text format of package graph. They import the
// operator set of the model that they are written to in place of this one.
const definitions = `<ir_version: 8, opset_import: ["": 13]>
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
