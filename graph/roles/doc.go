// Package roles says which tensors of a forward model are its parameters, which training changes. Files
// store weights, constants, buffers and scales alike, as initializers; their roles tell them apart.
//
// A file may say it: the signature of torch.export that PyTorch's exporter leaves in the metadata of
// values and of the graph, or memopt's own record (Carry). Other initializers are judged by the
// operands that they are: the exponent of Pow, the bounds of Clip, the scale of DequantizeLinear and
// the statistics of BatchNormalization are no parameters, nor is a single number that is multiplied
// or added, such as an epsilon; the filter of Conv and the addend of a product are. Find has all
// rules.
package roles
