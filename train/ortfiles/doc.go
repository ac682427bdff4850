// Package ortfiles reads the artefacts of onnxruntime-training 1.19.2: a folder of
//
//	training_model.onnx   forward and backward, and nodes that add the gradients to buffers
//	eval_model.onnx       the forward half as in inference; may be missing
//	optimizer_model.onnx  the update of all parameters by sums of gradients; may be missing
//	checkpoint            weights, moments and properties, as flatbuffers
//
// The checkpoint's format is that of ONNX Runtime's schemas ort_training_checkpoint.fbs and ort.fbs, of
// version 2 or older. Its optimizer model works on sequences of tensors, and is not run: [Update]
// describes its formula, so that a training step can compute the same.
package ortfiles
