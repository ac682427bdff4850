// Package quantize makes a forward model smaller by dynamic quantization: weights of products and
// tables of embeddings become integers of 8 bits, once; the other factor of a product is quantized in
// every run, with a scale of its own. It writes ONNX's own operators, so that every runtime reads the
// file:
//
//	MatMul, Gemm  DynamicQuantizeLinear of the input, MatMulInteger, Cast, Mul by both scales, and
//	              Add of the bias
//	Gather        Gather of the integers, then DequantizeLinear, or Cast and Mul by the rows' scales
//
// These are the forms and the numbers of onnxruntime.quantization.quantize_dynamic: uint8 weights have
// the range from the least to the greatest weight, 0 included, and a zero point; int8 ones are
// symmetric, q = round(w / scale) with scale = max|w| / 127. Rounding is to even. With ReduceRange
// weights have 7 bits, uint8 to 127, int8 from -64 to 64. ONNX Runtime on processors with AVX2 or
// AVX-512 and without VNNI adds pairs of products with int8 in 16 bits, which saturate: int8 weights of
// 8 bits give other numbers there, uint8 ones and those of 7 bits do not. With PerChannel each column
// of a product's weight, and each row of an embedding, has its own scale.
//
// Sums of products are exact: weights whose columns are so long that a sum could leave 32 bits stay as
// they are.
//
// A weight that several nodes read, for example an embedding that is the head's weight, too, is
// quantized once for all of them, or not at all: else the file would have it twice.
package quantize
