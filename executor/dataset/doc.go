// Package dataset reads and writes the inputs and outputs of a model: in ONNX's test layout
// (input_N.pb, output_N.pb) or as npz, and generates inputs.
package dataset
