// Command gpu checks memopt on a machine with a GPU, stage by stage, and reports what it found.
// scripts/gpu-verify builds it, carries it there and runs it; docs/gpu/README.md says what the
// stages check.
package main

import (
	"os"

	"memopt/bench/gpu/stages"
)

func main() { os.Exit(stages.Main(os.Args[1:], os.Stdout, os.Stderr)) }
