package op_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
)

// ONNX's own conformance models, as Debian's package libonnx-testdata installs
// them. Each has one operator (or a short expansion into several), numeric types of
// its inputs and outputs, and inputs in files of their own.
const conformanceDir = "/usr/share/libonnx-testdata/data"

// verdict is how inference compares with what a model declares.
type verdict int

const (
	agrees      verdict = iota // every output's type is found
	partial                    // something stays unknown, nothing contradicts
	contradicts                // something else is found
)

// TestConformance forgets the declared types of outputs, infers them and compares; once from the
// types of the inputs alone, and once with the inputs as constants, so that what depends on
// contents is found as well.
func TestConformance(t *testing.T) {
	files, err := filepath.Glob(conformanceDir + "/*/*/model.onnx")
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skipf("no models in %s: apt-get install libonnx-testdata brings them", conformanceDir)
	}
	for _, constant := range []bool{false, true} {
		t.Run(fmt.Sprintf("constants=%v", constant), func(t *testing.T) {
			var counts [3]int
			var skipped int
			var partials []string
			for _, f := range files {
				v, detail, ok := conform(t, f, constant)
				if !ok {
					skipped++
					continue
				}
				if counts[v]++; v == contradicts {
					t.Errorf("%s: %s", f, detail)
				} else if v == partial {
					partials = append(partials, filepath.Base(filepath.Dir(f))+": "+detail)
				}
			}
			t.Logf("%d models agree, %d partly, %d contradict, %d were left out: an older operator set, or "+
				"operators without a row",
				counts[agrees], counts[partial], counts[contradicts], skipped)
			if constant {
				for _, p := range partials {
					if !mayStayUnknown(p) {
						t.Errorf("%s", p)
					}
				}
			}
		})
	}
}

// conform infers one model; ok is false where an operator has no row or the model's
// operator set is older than memopt reads.
func conform(t *testing.T, file string, constant bool) (v verdict, detail string, ok bool) {
	m, closer, err := onnx.Open(file)
	if err != nil {
		require.ErrorContains(t, err, "wanted 7 or newer", file)
		return 0, "", false
	}
	defer closer.Close()
	g := m.Graph
	want := slices.Clone(g.Outputs)
	forget(g)
	if constant {
		inputsAsConstants(t, g, filepath.Join(filepath.Dir(file), "test_data_set_0"))
	}
	res, err := op.Infer(m)
	if err != nil {
		return contradicts, err.Error(), true
	}
	if len(res.NoRow) > 0 {
		return 0, "", false
	}
	for _, d := range want {
		got := g.Values[d.Value].Type
		if w := compareTypes(got, d.Type); w > v {
			v, detail = w, fmt.Sprintf("output %s: inferred %v, declared %v", g.ValueName(d.Value), got, d.Type)
		}
	}
	return v, detail, true
}

// forget takes away what a file says of values that nodes make.
func forget(g *graph.Graph) {
	g.ValueInfo = nil
	for i := range g.Outputs {
		g.Outputs[i].Type = graph.Type{}
	}
	for i := range g.Values {
		if g.Values[i].Def != graph.NoNode {
			g.Values[i].Type = graph.Type{}
		}
	}
}

// inputsAsConstants makes the tensors of a data set initializers in place of the
// graph's inputs.
func inputsAsConstants(t *testing.T, g *graph.Graph, dir string) {
	inputs := g.Inputs
	g.Inputs = nil
	for i, d := range inputs {
		file := filepath.Join(dir, fmt.Sprintf("input_%d.pb", i))
		data, err := os.ReadFile(file)
		v := &g.Values[d.Value]
		if err != nil || d.Type.Form != graph.FormTensor || v.IsInitializer() {
			g.Inputs = append(g.Inputs, d)
			continue
		}
		tensor, err := onnx.DecodeTensor(data, file)
		require.NoError(t, err, file)
		tensor.Name, v.Input = v.Name, false
		_, err = g.AddInitializer(tensor)
		require.NoError(t, err, file)
	}
}

func compareTypes(got, want graph.Type) verdict {
	switch {
	case want.Form == graph.FormUnknown:
		return agrees
	case got.Form == graph.FormUnknown:
		return partial
	case got.Form != want.Form:
		return contradicts
	case got.Elem != nil && want.Elem != nil:
		return compareTypes(*got.Elem, *want.Elem)
	case got.Form != graph.FormTensor:
		return agrees
	case got.DType == graph.Undefined:
		return partial
	case got.DType != want.DType:
		return contradicts
	}
	return compareShapes(got.Shape, want.Shape)
}

func compareShapes(got, want graph.Shape) verdict {
	switch {
	case !want.Ranked:
		return agrees
	case !got.Ranked:
		return partial
	case len(got.Dims) != len(want.Dims):
		return contradicts
	}
	v := agrees
	for i, d := range got.Dims {
		n, known := d.Const()
		w, declared := want.Dims[i].Const()
		if declared && known && n != w {
			return contradicts
		}
		if declared && !known {
			v = partial
		}
	}
	return v
}

// dataDependent lists, by a part of their models' names, operators whose result's shape depends on
// contents that inference does not carry along, with the reason.
var dataDependent = map[string]string{
	"test_nonzero":           "counts elements that are not 0",
	"test_unique":            "counts distinct elements",
	"test_nonmaxsuppression": "counts boxes that are kept",
	"test_sequence":          "tensors of different shapes in one sequence",
	"test_loop16_seq_none":   "an optional sequence, whose type is that of the branch taken",
}

func mayStayUnknown(model string) bool {
	for part := range dataDependent {
		if strings.HasPrefix(model, part) {
			return true
		}
	}
	return false
}
