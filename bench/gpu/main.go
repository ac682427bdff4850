// Command gpu checks memopt on a machine with a GPU, stage by stage, and reports the results.
// scripts/gpu-verify builds it, copies it there and runs it; docs/gpu/README.md describes the
// stages' checks.
package main

import (
	"os"

	"memopt/bench/gpu/stages"
)

func main() { os.Exit(stages.Main(os.Args[1:], os.Stdout, os.Stderr)) }
