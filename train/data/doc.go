// Package data makes the batches of a training job from files.
//
// A [Source] is a set of samples: blocks of a file of tokens, or rows of arrays, of tensors in
// ONNX's test layout, or of records of one size. [Open] makes one for the inputs of a step, and
// recognizes formats by the names of the files. Files are mapped, not read, and Fill copies one
// sample to its row of a batch, converting elements where that is exact.
//
// An [Order] says which sample comes when. It is a function of (seed, epoch, place) that needs no
// memory, so that a position in the training data is three numbers, and a job that is continued
// sees the samples of an undisturbed one. A [Loader] prepares batches ahead of the step.
//
// Faults of the data are reported before the first step where possible: Open compares types, shapes
// and lengths, Check reads all elements that must lie in a range. A file that changes during the
// run is an error of Fill, as package mapfile has it.
package data
