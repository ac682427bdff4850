// Package configs reads what users configure plans with: ONNX Runtime's JSON arrays of
// "ClusterID:Strategy:Count", memopt's own plan.json, device profiles, the traces that `memopt run
// --profile` writes, and the environment variables that ORTModule honours. It is the only package
// that reads configuration files.
//
// The folder also holds example configurations; its README explains each.
package configs
