// Package npz reads and writes numpy's files: .npy files, with one array each, and .npz files, zip
// archives of them. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
//
// numpy has no type for bfloat16: such a tensor is not written, and must be cast first.
package npz
