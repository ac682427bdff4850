// Package modules finds the module of a PyTorch program that each node of a graph comes from, by
// traces that exporters leave:
//
//   - the names of nodes, which the TorchScript exporter makes of scopes (/model/h.0/attn/MatMul);
//   - entries of nodes' metadata, as the exporter on torch.export writes them
//     (pkg.torch.onnx.name_scopes);
//   - a list of the modules in the model's metadata (memopt.torch), written by memopt.torch.export,
//     which decides where names do not;
//   - or a map from modules to globs of nodes' names, which takes the place of the first two.
package modules
