// Command memopt plans and applies recomputation in ONNX training graphs. Run
// `memopt help` for its verbs.
package main

import (
	"os"

	"memopt/internal/memlimit"
)

func main() {
	memlimit.BoundHeap()
	os.Exit(run(os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}, os.Environ()))
}
