package op

// domainMemopt is the domain of operators of memopt's own.
const domainMemopt = "memopt"

// memoptRows are operators that memopt writes into graphs where neither ONNX nor ONNX Runtime has one
// for what it does. Files define them as functions of operators that others know: see Define.
//
// Both add a product of stacks of matrices to C, which has the shape of the result. They are what Gemm
// is for two matrices: a sum that is computed in parts goes on where the part before has ended.
var memoptRows = []Info{
	{Kind: FusedMatMulAdd, Domain: domainMemopt, Name: "FusedMatMulAdd", Since: []int{1}, Inputs: exactly(3),
		Outputs: exactly(1),
		Infer:   matMulAddRule(fusedMatMulRule), Factors: matMulAddFactors(fusedMatMulFactors), Class: Expensive,
		FLOPs: fusedMatMulFLOPs, InPlace: []int{2}, Throughout: []int{0, 1}},
	{Kind: MatMulAdd, Domain: domainMemopt, Name: "MatMulAdd", Since: []int{1}, Inputs: exactly(3),
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
