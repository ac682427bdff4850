package memopt

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"memopt/graph/hlo"
	"memopt/internal/inputfile"
	"memopt/sim/xla"
)

// openCompiled reads a file that is a program of XLA's compiler; nil: it is none, or cannot be opened, which reading it
// as an ONNX model will say.
func openCompiled(path string, o Options) (*Model, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	head := make([]byte, hlo.HeadBytes)
	n, _ := io.ReadFull(f, head)
	if !hlo.IsModule(head[:n]) {
		return nil, nil
	}
	data, err := inputfile.Read(path, hlo.MaxBytes)
	if err != nil {
		return nil, &Error{OfCaller, err}
	}
	return compiled(data, path, o)
}

// readCompiled is openCompiled for a stream, which is then read from whole.
func readCompiled(r io.Reader, name string, o Options) (m *Model, whole io.Reader, err error) {
	in := bufio.NewReader(r)
	if head, _ := in.Peek(hlo.HeadBytes); !hlo.IsModule(head) {
		return nil, in, nil
	}
	data, err := inputfile.ReadAll(in, 0, hlo.MaxBytes)
	if err != nil {
		return nil, nil, &Error{OfCaller, fmt.Errorf("%s: %w", name, err)}
	}
	m, err = compiled(data, name, o)
	return m, nil, err
}

// compiled makes a model of a program.
func compiled(data []byte, name string, o Options) (*Model, error) {
	invalid := func(err error) error { return &Error{OfModel, fmt.Errorf("%s: %w", name, err)} }
	module, err := hlo.Read(data)
	if err != nil {
		return nil, invalid(err)
	}
	program, err := xla.Run(module)
	if err != nil {
		return nil, invalid(err)
	}
	g, err := program.Graph()
	if err != nil {
		return nil, invalid(err)
	}
	g.Path = name
	m, err := prepare(name, g, nil, nil, o)
	if err != nil {
		return nil, err
	}
	m.Compiled = program
	if o.Warn != nil {
		for _, text := range program.Caveats() {
			o.Warn(name + ": " + text)
		}
	}
	return m, nil
}
