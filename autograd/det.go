package autograd

// detRule: the gradient is the determinant times the transposed inverse, and ONNX has no inverse.
func detRule(c *Ctx) {
	c.Unsupported("it takes the inverse of a matrix, for which ONNX has no operator")
}
