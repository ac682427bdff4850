// Package weights finds the tensors of a file that are a model's weights, and gives them to the model.
//
// A file that memopt has written, or that was made from the model, has the names of the model's
// initializers. One that PyTorch has written, by a module's state_dict, has names that differ from an
// export's in known ways, which are tried in this order:
//
//  1. Names are equal. If any are, those are all that are taken by name.
//  2. Names are equal but for the prefixes of wrappers ("module.", "_orig_mod." and so on), and for one
//     prefix that all of the file's names, or all of the model's, have in addition.
//  3. A weight of a linear layer that torch.onnx has transposed when it folded constants: an
//     initializer called onnx::MatMul_123 whose reader is the node "/h.0/fc/MatMul" is the transpose
//     of "h.0.fc.weight".
//
// There are no guesses: shapes must agree, each tensor is one parameter's, and where two tensors could
// be meant the error names both.
package weights
