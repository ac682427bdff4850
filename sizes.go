package memopt

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph/examples"
	"memopt/graph/modules"
	"memopt/graph/op"
	"memopt/recompute"
	"memopt/symbolic"
)

// Size is an example binding of a symbol.
type Size struct {
	Value int64
	// From names the source of the value in the file or its folder, for example "test_data_set_0". ""
	// means that there is no source; then Value is a small number.
	From string
}

// The sizes of symbols without an example in a file: smallBatch of the batch, smallSize of others.
const (
	smallBatch = 2
	smallSize  = 8
)

// ExampleSizes returns a size for each symbol, from the first of these sources that has one: a
// recorded plan, the built-in model's own sizes, the inputs that memopt.torch has exported the model
// with, ONNX's test data beside the file, shapes that the file states in numbers, and else a small
// number, within the range that torch.export states for the symbol.
func (m *Model) ExampleSizes(symbols []string) map[string]Size {
	known := map[string]Size{}
	add := func(env map[string]int64, from string) {
		for s, n := range env {
			if _, ok := known[s]; !ok && n > 0 {
				known[s] = Size{n, from}
			}
		}
	}
	if r := recompute.RecordOf(m.Model); r != nil {
		add(r.Dims, "the recorded plan")
	}
	if name, ok := strings.CutPrefix(m.Path, ExamplePrefix); ok {
		ex, _ := examples.Lookup(name)
		add(ex.Dims, "the example")
	}
	add(modules.Sizes(m.Model), "the export")
	add(m.testSizes(), testFolder)
	add(m.statedSizes(), "shapes in the file")
	ranges, batch := m.exportedRanges(), m.batchName()
	sizes := map[string]Size{}
	for _, s := range symbols {
		size, ok := known[s]
		if !ok {
			size.Value = smallSize
			if s == batch {
				size.Value = smallBatch
			}
			if r, ok := ranges[s]; ok {
				size.Value = min(max(size.Value, r.Lo), r.Hi)
			}
		}
		sizes[s] = size
	}
	return sizes
}

const (
	testFolder = "test_data_set_0" // beside a model, in ONNX's test layout
	mostTests  = 64 << 20          // bytes of test data that are read for an example
)

// testSizes are those of the test data beside the file; nil without test data that suit the model.
func (m *Model) testSizes() symbolic.Env {
	if info, err := os.Stat(m.Path); err != nil || !info.Mode().IsRegular() {
		return nil // a built-in model, or one from a stream
	}
	dir := filepath.Join(filepath.Dir(m.Path), testFolder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	total := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		total += info.Size()
	}
	if total > mostTests {
		return nil
	}
	data, err := dataset.LoadDir(dir, m.Graph, nil)
	if err != nil {
		return nil
	}
	values := make([]*executor.Tensor, len(m.Graph.Values))
	for name, t := range data.Inputs {
		if id, ok := m.Graph.Lookup(name); ok {
			values[id] = t
		}
	}
	env, err := executor.BindDims(m.Graph, values, nil)
	if err != nil {
		return nil
	}
	return env
}

// statedSizes are those of dims that the file states in numbers, and that inference finds to be
// symbols: an exporter has written the sizes of its example there.
func (m *Model) statedSizes() map[string]int64 {
	sizes := map[string]int64{}
	of := func(c *op.Conflict) {
		stated, inferred := c.Declared.Shape, c.Inferred.Shape
		if len(stated.Dims) != len(inferred.Dims) {
			return
		}
		for i, dim := range inferred.Dims {
			list := dim.Symbols()
			n, number := stated.Dims[i].Const()
			if !number || len(list) != 1 || !dim.Equal(symbolic.Sym(list[0])) {
				continue
			}
			if _, known := sizes[list[0]]; !known {
				sizes[list[0]] = n
			}
		}
	}
	for i := range m.Types.Conflicts {
		of(&m.Types.Conflicts[i])
	}
	return sizes
}

// rangesKey is the entry of a graph's metadata with the ranges that torch.export has found for
// symbols, "{s33: VR[2, int_oo]}" (torch/onnx/_internal/exporter/_core.py).
const rangesKey = "pkg.torch.export.ExportedProgram.range_constraints"

var exportedRange = regexp.MustCompile(`(\w+): VR\[(\d+), (\w+)\]`)

// exportedRanges are the ranges of symbols in PyTorch's metadata.
func (m *Model) exportedRanges() map[string]symbolic.Range {
	ranges := map[string]symbolic.Range{}
	for _, p := range m.Graph.Metadata {
		if p.Key != rangesKey {
			continue
		}
		for _, part := range exportedRange.FindAllStringSubmatch(p.Value, -1) {
			r := symbolic.Range{Lo: 1, Hi: 1 << 62}
			if lo, err := strconv.ParseInt(part[2], 10, 64); err == nil {
				r.Lo = max(lo, 1)
			}
			if hi, err := strconv.ParseInt(part[3], 10, 64); err == nil {
				r.Hi = max(hi, r.Lo)
			}
			ranges[part[1]] = r
		}
	}
	return ranges
}

// batchName is the symbol of the batch: the one whose name says so, else the first dim of the first
// input that has a symbol there; "" without such a symbol.
func (m *Model) batchName() string {
	for _, s := range m.Symbols() {
		if strings.Contains(strings.ToLower(s), "batch") {
			return s
		}
	}
	for _, in := range m.Graph.Inputs {
		if dims := m.Graph.Values[in.Value].Type.Shape.Dims; len(dims) > 0 {
			if list := dims[0].Symbols(); len(list) == 1 && dims[0].String() == list[0] {
				return list[0]
			}
		}
	}
	return ""
}
