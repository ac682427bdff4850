package memopt_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// order is the allowed order of imports: a package may import packages of
// lines above its own and nothing else of this module; memopt is the module's root. Test files are free, but
// only external test packages look downwards.
const order = `
	internal/caught internal/cgroup internal/cleanup internal/test/rapidflags internal/test/schematest internal/timelimit
	internal/memlimit
	internal/fileio internal/inputfile internal/library internal/mapfile internal/test/mutate internal/nearmiss
	internal/answers
	hint
	symbolic internal/half
	graph
	graph/op answers/estimate/parts
	graph/onnx internal/test/graphtest graph/live graph/modules
	graph/examples sim/ort graph/pattern
	recompute planner/order planner/pack planner/remat
	planner/arena planner/chunk
	planner/place
	planner/anchor planner/cluster planner/envelope
	planner/budget
	executor/small executor/einsum internal/simd internal/native
	train/collective
	train/mpi
	sim/torch graph/roles
	planner/moduleplan
	executor/cpu/dnnl
	executor/cpu/blas
	autograd executor
	executor/npz
	executor/dataset executor/operand executor/ort
	train/safetensors train/schedule train/data train/events
	train/checkpoint train/ortfiles train/weights
	executor/cpu executor/null internal/test/kerneltest executor/verify executor/cuda/kernels executor/cuda/driver
	executor/resident internal/test/double executor/cuda/kernels/compile
	executor/cuda
	planner
	view/timeline
	view/torchsnapshot
	executor/ort/ortengine view/report configs
	memopt
	answers/explain view/figure train answers/doctor answers/fit answers/estimate/parallel python/pytorch
	answers/diff
	answers/estimate view/webpage answers/sweep
	inference/compare inference/edit
	inference/optimize
	inference/quantize
	bench/gpu/stages
	cmd/memopt bench/forward bench/gpu scripts/mutants
`

// TestImportOrder holds the packages to the order of ARCHITECTURE.md.
func TestImportOrder(t *testing.T) {
	rank := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(order), "\n") {
		for _, name := range strings.Fields(line) {
			if name != "memopt" {
				name = "memopt/" + name
			}
			rank[name] = i + 1
		}
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		pkg := fields[0]
		if rank[pkg] == 0 {
			t.Errorf("package %s has no place in the import order: add it to deps_test.go and to "+
				"ARCHITECTURE.md", pkg)
			continue
		}
		for _, imp := range fields[1:] {
			if (imp == "memopt" || strings.HasPrefix(imp, "memopt/")) && rank[imp] >= rank[pkg] {
				t.Errorf("package %s imports %s, which is not above it", pkg, imp)
			}
		}
	}
}

// TestRapidFlags: every test package that draws with rapid takes the project's defaults of its
// flags, so that draws repeat in CI and failures leave no files.
func TestRapidFlags(t *testing.T) {
	const rapid, flags = "pgregory.net/rapid", "memopt/internal/test/rapidflags"
	const form = `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`
	out, err := exec.Command("go", "list", "-f", form, "./...").Output()
	require.NoError(t, err)
	draws := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if !slices.Contains(fields, rapid) {
			continue
		}
		draws++
		if !slices.Contains(fields, flags) {
			t.Errorf("the tests of %s import rapid: import _ %q too", fields[0], flags)
		}
	}
	require.Positive(t, draws)
}
