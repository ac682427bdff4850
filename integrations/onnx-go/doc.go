// Package onnxgo makes memopt a backend of onnx-go (github.com/owulveryck/onnx-go): a Go program that
// loads models by onnx-go gets memopt's model of them, and with it formulas of sizes, training steps,
// plans, rewritten files, and execution on the CPU.
//
//	backend := onnxgo.New(onnxgo.Options{Opset: 15})
//	decoded := onnx.NewModel(backend)
//	err := decoded.UnmarshalBinary(data)
//	model, err := backend.Model(decoded)  // a *memopt.Model
//
// A backend is also an executor: after backend.Bind(decoded) and decoded.SetInput, backend.Run
// computes the outputs, which decoded.GetOutputTensors returns.
//
// onnx-go hands a backend less than a file says. It leaves out dims that are symbols, the version of
// the operator set, domains, functions and subgraphs: [Options] gives the first two back, and a model
// with the last two does not get past onnx-go. Where a program has the bytes of a file, memopt.Read
// loses none of it.
package onnxgo
