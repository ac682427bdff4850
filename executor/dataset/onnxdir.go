package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/fileio"
	"memopt/internal/inputfile"
	"memopt/internal/memlimit"
)

// npzSuffix ends the names of files of arrays.
const npzSuffix = ".npz"

// Named is a tensor with its name.
type Named struct {
	Name   string
	Tensor *executor.Tensor
}

// Set is the contents of a folder in ONNX's test layout.
type Set struct {
	Dir     string
	Files   []string                    // that it was read from
	Inputs  map[string]*executor.Tensor // by name of the value
	Outputs map[int]Named               // by place among the model's outputs: expected ones
}

// Load reads inputs for a graph, and the outputs to expect of it: from an .npz file, from a folder
// of arrays, or from one in ONNX's test layout.
func Load(path string, g *graph.Graph) (*Set, error) {
	switch {
	case strings.HasSuffix(path, npzSuffix):
		return loadNPZ(path, g)
	case hasArrays(path):
		return loadArrays(path, g)
	}
	return LoadDir(path, g, yielded(g))
}

// yielded lists the gradients that a boundary node hands out.
func yielded(g *graph.Graph) []string {
	var names []string
	for _, n := range g.Nodes {
		if !op.Of(n.Kind).Has(op.Yield) {
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				names = append(names, g.Values[v].Name)
			}
		}
	}
	return names
}

// LoadDir reads input_N.pb and output_N.pb of a folder; N counts the graph's inputs and outputs. A
// tensor that bears the name of an input is that input, whatever N is; so are the gradients that a
// boundary node hands out, which other *.pb files may hold as well.
func LoadDir(dir string, g *graph.Graph, gradients []string) (*Set, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Set{Dir: dir, Inputs: map[string]*executor.Tensor{}, Outputs: map[int]Named{}}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !strings.HasSuffix(name, ".pb") {
			continue
		}
		if err := s.load(filepath.Join(dir, name), strings.TrimSuffix(name, ".pb"), g, gradients); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Set) load(file, base string, g *graph.Graph, gradients []string) error {
	number, isInput := numbered(base, "input_")
	if out, ok := numbered(base, "output_"); ok {
		t, err := ReadTensor(file)
		if err == nil {
			s.Outputs[out] = t
			s.Files = append(s.Files, file)
		}
		return err
	}
	t, err := ReadTensor(file)
	if err != nil {
		if !isInput {
			return nil // some other file
		}
		return err
	}
	id, known := g.Lookup(t.Name)
	switch {
	case known && g.Values[id].Input || slices.Contains(gradients, t.Name):
		s.Inputs[t.Name] = t.Tensor
	case isInput && number < len(g.Inputs):
		name := g.Values[g.Inputs[number].Value].Name
		if s.Inputs[name] == nil {
			s.Inputs[name] = t.Tensor
		}
	case isInput && number-len(g.Inputs) < len(gradients):
		s.Inputs[gradients[number-len(g.Inputs)]] = t.Tensor
	case isInput:
		return fmt.Errorf("%s: the model has %d inputs and no input %d; the tensor's name is %q",
			file, len(g.Inputs), number, t.Name)
	default:
		return nil // some other file
	}
	s.Files = append(s.Files, file)
	return nil
}

// numbered parses input_3 and the like.
func numbered(base, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(base, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(rest)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == rest
}

// maxTensorFile is the largest size of a file of tensors that is read: protocol buffer libraries write
// no larger ones.
const maxTensorFile = 2 << 30

// ReadTensor reads a file that holds one TensorProto. The error wraps executor.ErrOutOfMemory where
// there is no memory for it.
func ReadTensor(file string) (Named, error) {
	data, err := inputfile.Read(file, maxTensorFile)
	if err != nil {
		return Named{}, err
	}
	td, err := onnx.DecodeTensor(data, file)
	if err != nil {
		return Named{}, err
	}
	t, err := FromData(td)
	if err != nil {
		return Named{}, fmt.Errorf("%s: %w", file, err)
	}
	return Named{td.Name, t}, nil
}

// FromData returns a tensor with a copy of the contents that a file holds.
func FromData(td *graph.TensorData) (*executor.Tensor, error) {
	t := &executor.Tensor{DType: td.DType}
	if td.DType.Bits() == 0 {
		return nil, fmt.Errorf("tensor %q: has elements of type %v; the executor has numbers and bools",
			td.Name, td.DType)
	}
	for _, d := range td.Dims {
		t.Shape = append(t.Shape, int(d))
	}
	n, ok := executor.Bytes(t.DType, t.Shape)
	if !ok {
		return nil, fmt.Errorf("tensor %q: shape %v is not a valid shape for a tensor in memory", td.Name, td.Dims)
	}
	if n == 0 {
		return t, nil
	}
	if td.Source == nil {
		return nil, fmt.Errorf("tensor %q: has no contents", td.Name)
	}
	raw, err := td.Source.Bytes()
	if err != nil {
		return nil, err
	}
	if len(raw) != n {
		return nil, fmt.Errorf("tensor %q: has %d bytes, wanted %d for %v", td.Name, len(raw), n, t)
	}
	if err := memlimit.Check(int64(n), "tensor %q (%v)", td.Name, t); err != nil {
		return nil, err
	}
	t.Data = append(make([]byte, 0, (n+7)&^7), raw...)
	return t, nil
}

// FileName returns the name of WriteDir's file for a value: the value's with "/" as %2F, with
// further changes if that is no name of a file, or another value's ([fileio.Name]).
func FileName(value string) string { return fileio.Name(value, ".pb") }

// Write writes tensors to an .npz file, or else to a folder as WriteDir does.
func Write(path string, tensors []Named, files *fileio.Ledger) error {
	if strings.HasSuffix(path, npzSuffix) {
		return writeNPZ(path, tensors)
	}
	return WriteDir(path, tensors, files)
}

// WriteDir writes one TensorProto per tensor, to the file that FileName says; the tensor's own name
// is exact. The ledger must accept each file before it is written.
func WriteDir(dir string, tensors []Named, files *fileio.Ledger) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, t := range tensors {
		data, err := onnx.EncodeTensor(toData(t))
		if err != nil {
			return fmt.Errorf("output %q: %w", t.Name, err)
		}
		what, file := fmt.Sprintf("output %q:", t.Name), filepath.Join(dir, FileName(t.Name))
		if err := files.Output(what, file); err != nil {
			return err
		}
		if err := fileio.WriteFile(file, data); err != nil {
			return err
		}
		files.Written(what, file)
	}
	return nil
}

func toData(t Named) *graph.TensorData {
	td := &graph.TensorData{Name: t.Name, DType: t.Tensor.DType, Source: graph.Raw(t.Tensor.Data), Dims: []int64{}}
	for _, d := range t.Tensor.Shape {
		td.Dims = append(td.Dims, int64(d))
	}
	return td
}
