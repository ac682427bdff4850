// Command memopt plans and applies recomputation in ONNX training graphs. Run
// `memopt help` for its verbs.
package main

import (
	"io"
	"os"

	"memopt/internal/memlimit"
)

func main() {
	memlimit.BoundHeap()
	os.Exit(run(os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}, os.Environ()))
}

// stdio is where a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}
