// Command memopt plans and applies recomputation in ONNX training graphs. Run
// `memopt help` for its verbs.
package main

import (
	"os"

	"memopt/cmd/memopt/internal/cli"
	"memopt/internal/memlimit"
)

func main() {
	memlimit.BoundHeap()
	streams := cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Parent: cli.ParentPipe()}
	os.Exit(run(os.Args[1:], streams, os.Environ()))
}
