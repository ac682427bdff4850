package op

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"memopt/graph"
)

// familyFiles names the file of the rows that begin with each kind, for messages.
var familyFiles = []struct {
	from graph.Kind
	file string
}{
	{Abs, "table_math.go"}, {Bernoulli, "table_shape.go"}, {AffineGrid, "table_nn.go"},
	{ConcatFromSequence, "table_control.go"}, {ATen, "table_microsoft.go"}, {GeluGradDeeploy, "table_deeploy.go"},
}

func fileOf(k graph.Kind) string {
	file := ""
	for _, f := range familyFiles {
		if k >= f.from {
			file = f.file
		}
	}
	return file
}

func TestTableIsComplete(t *testing.T) {
	seen := map[opKey]graph.Kind{}
	for k := Unknown + 1; k < NumKinds; k++ {
		row := Of(k)
		if row.Name == "" {
			before := "the first kind"
			if k > Unknown+1 {
				before = Of(k - 1).Name
			}
			t.Errorf("kind %d (the one behind %s in kind.go) has no row: add one to %s", k, before, fileOf(k))
			continue
		}
		key := opKey{row.Domain, row.Name}
		if row.Dialect != "" {
			assert.Contains(t, dialects[key], k, "dialects of %s", row.Name)
			assert.NotEqual(t, k, Lookup(row.Domain, row.Name), "Lookup of %s is the definition's", row.Name)
			for _, fault := range rowFaults(row) {
				t.Errorf("op %s: %s: mend its row in %s", row.Name, fault, fileOf(k))
			}
			continue
		}
		if other, dup := seen[key]; dup {
			t.Errorf("op %s of domain %q has two kinds, %d and %d: remove one of them from kind.go",
				row.Name, row.Domain, other, k)
		}
		seen[key] = k
		assert.Equal(t, k, Lookup(row.Domain, row.Name), "Lookup of %s", row.Name)
		assert.Equal(t, graph.CanonicalDomain(row.Domain), row.Domain, "op %s: domain", row.Name)
		for _, fault := range rowFaults(row) {
			t.Errorf("op %s: %s: mend its row in %s", row.Name, fault, fileOf(k))
		}
	}
}

// rowFaults lists what a row lacks or contradicts.
func rowFaults(r *Info) (faults []string) {
	check := func(ok bool, fault string) {
		if !ok {
			faults = append(faults, fault)
		}
	}
	check(r.Infer != nil, "has no shape rule (Infer)")
	check(len(r.Since) > 0, "lists no schema version (Since)")
	check(slices.IsSorted(r.Since) && len(slices.Compact(slices.Clone(r.Since))) == len(r.Since),
		"its versions (Since) do not ascend")
	check(int(r.Class) < len(classNames), "has an unknown class")
	check(arityOK(r.Inputs) && arityOK(r.Outputs), "has an impossible arity")
	check(!r.View || r.Class == Free || r.Transfer == Awaits, "is a view and must have the class Free")
	check(!r.Random || r.Class == Seeded || r.Class == Never, "is random and must have the class Seeded or Never")
	check(r.Class != Seeded || r.SeedAttr != "", "has the class Seeded and no attribute that holds the seed")
	for _, slot := range r.InPlace {
		check(slot >= 0 && (r.Inputs.Max < 0 || slot < r.Inputs.Max),
			"names an input (InPlace) that it does not have")
	}
	for _, e := range r.ORT {
		check(e.Level == 0 || e.Level == 1, "has an entry of ONNX Runtime with a level other than 0 and 1")
		check(slices.IsSorted(e.Versions) && len(e.Versions) > 0,
			"has an entry of ONNX Runtime without ascending versions")
	}
	return faults
}

func arityOK(a Arity) bool { return a.Min >= 0 && (a.Max < 0 || a.Max >= a.Min) }

func TestSinceVersion(t *testing.T) {
	add := Of(Add)
	for imported, want := range map[int64]int{0: 0, 1: 1, 5: 1, 6: 6, 12: 7, 13: 13, 14: 14, 99: 14} {
		assert.Equal(t, want, add.SinceVersion(imported), "opset %d", imported)
	}
}

func TestLookup(t *testing.T) {
	assert.Equal(t, MatMul, Lookup("", "MatMul"))
	assert.Equal(t, MatMul, Lookup("ai.onnx", "MatMul"))
	assert.Equal(t, Gelu, Lookup("", "Gelu"))
	assert.Equal(t, GeluMS, Lookup("com.microsoft", "Gelu"))
	assert.Equal(t, Unknown, Lookup("", "NoSuchOperator"))
	assert.Equal(t, Unknown, Lookup("com.example", "MatMul"))
}

// ortEntries repeats ONNX Runtime's table (recompute_analysis.cc) for the rows of the
// math and shape families, in its own order: level, versions, skipped inputs.
var ortEntries = map[graph.Kind][]Recomputable{
	Add:             {{0, []int{1, 6, 7, 13, 14}, nil}},
	Div:             {{0, []int{1, 6, 7, 13, 14}, nil}},
	Mul:             {{0, []int{1, 6, 7, 13, 14}, nil}},
	Sub:             {{0, []int{1, 6, 7, 13, 14}, nil}},
	Cast:            {{0, []int{1, 6, 9, 13, 19}, nil}},
	ConstantOfShape: {{0, []int{9, 20}, []int{0}}},
	Cos:             {{0, []int{7}, nil}},
	Sin:             {{0, []int{7}, nil}},
	CumSum:          {{0, []int{11, 14}, []int{1}}},
	Einsum:          {{0, []int{12}, nil}},
	Equal:           {{0, []int{1, 7, 11, 13, 19}, nil}},
	Expand:          {{0, []int{8, 13}, []int{1}}},
	Gather:          {{0, []int{1, 11, 13}, []int{1}}},
	Gelu:            {{0, []int{20}, nil}},
	Gemm:            {{0, []int{1, 6, 7, 9, 11, 13}, nil}},
	Less:            {{0, []int{1, 7, 9, 13}, nil}},
	Neg:             {{0, []int{1, 6, 13}, nil}},
	NonZero:         {{0, []int{9, 13}, nil}},
	Range:           {{0, []int{11}, []int{0, 1, 2}}},
	Reshape:         {{0, []int{1, 5, 13, 14, 19}, nil}},
	Slice:           {{0, []int{1}, nil}, {0, []int{10, 11, 13}, []int{1, 2, 3, 4}}},
	Split:           {{0, []int{2, 11}, nil}, {0, []int{1, 13, 18}, []int{1}}},
	Squeeze:         {{0, []int{1, 11}, nil}, {0, []int{13}, []int{1}}},
	Unsqueeze:       {{0, []int{1, 11}, nil}, {0, []int{13}, []int{1}}},
	Tile:            {{0, []int{1}, []int{1, 2}}, {0, []int{6, 13}, []int{1}}},
	Transpose:       {{0, []int{1, 13}, nil}},
	Trilu:           {{0, []int{14}, []int{1}}},
	Where:           {{0, []int{9, 16}, nil}},
	MatMul:          {{1, []int{1, 9, 13}, nil}},
}

func TestRecomputableEntries(t *testing.T) {
	for k := Abs; k < AffineGrid; k++ {
		assert.Equal(t, ortEntries[k], Of(k).ORT, "op %s", Of(k).Name)
	}
}
