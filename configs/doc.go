// Package configs reads the configuration of plans: ONNX Runtime's JSON arrays of
// "ClusterID:Strategy:Count" (for example "Gelu+:1:2"), memopt's own plan.json, device profiles,
// the traces that `memopt run --profile` writes, and the environment variables that ORTModule
// honours. It is the only package that reads configuration files.
//
// The folder also holds example configurations; its README explains each.
package configs
