package memopt_test

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// dependencies lists the permitted imports: "a, b < c, d" lets c and d import a, b and all that these may
// import. "a !< b" is a promise: b may not import a, directly or through others. The module's root is memopt.
// Test files are free, but only external test packages import packages that may import theirs.
const dependencies = `
	# Files, limits, advice, numbers.
	internal/cgroup < internal/memlimit;
	internal/cleanup < internal/fileio;
	internal/memlimit < internal/inputfile, internal/mapfile;
	internal/library < internal/native;

	# Graphs: they know no plan, no gradient and no executor.
	symbolic < graph;
	graph, internal/lowbit < graph/op;
	graph < graph/examples, executor/small;
	graph/op, hint < graph/live;
	graph/op, internal/half < graph/pattern;
	graph, internal/inputfile < graph/modules;
	graph, internal/fileio, internal/inputfile, internal/mapfile < graph/onnx;
	graph/modules, graph/onnx, graph/op, internal/half < graph/roles;
	graph/pattern, internal/maxflow, internal/memlimit < graph/precision;
	planner, autograd, recompute, executor !< graph/op, graph/live, graph/onnx, graph/roles;

	# Other runtimes' memory.
	NONE < sim/allocator;
	sim/allocator < sim/snapshot;
	graph/live, sim/allocator < sim/ort;
	graph/live, graph/modules, graph/pattern, sim/allocator < sim/torch;
	graph/hlo, graph/live < sim/xla;
	NONE < sim/jax;
	planner, recompute, executor !< sim/allocator, sim/ort, sim/jax, sim/snapshot, sim/torch, sim/xla;

	# Gradients and recomputation know no plan.
	graph/precision, graph/roles, sim/ort < autograd;
	graph/pattern, sim/ort < recompute;
	planner, executor !< autograd, recompute;

	# Plans are made without kernels, gradients or reports.
	internal/timelimit, symbolic < planner/pack;
	graph/op < planner/device;
	internal/nearmiss, internal/timelimit < planner/remat;
	planner/remat < planner/offload;
	planner/offload < planner, view/report;
	internal/maxflow < check/flow;
	check/flow, check/streams < check;
	check, planner/chunk < check/planfile;
	planner, planner/remat !< check, check/planfile;
	graph/live, planner/pack < planner/arena;
	graph/live < planner/envelope;
	sim/ort < planner/order;
	sim/torch < planner/moduleplan;
	recompute < planner/chunk;
	planner/arena, recompute < planner/place;
	planner/place < planner/anchor, planner/cluster;
	planner/anchor, planner/offload, planner/remat < planner/budget;
	planner/budget, planner/chunk, planner/cluster, planner/device, planner/envelope, planner/order < planner;
	planner < planner/ortmodule;
	internal/inputfile, planner < configs;
	executor, autograd, view/report, train !< planner, configs;
	graph !< planner/pack, planner/remat, planner/offload;

	# Executors know the memory model, not the planner.
	graph, internal/simd < train/collective;
	internal/native, train/collective < train/mpi;
	executor/small, graph/live, internal/half, internal/mapfile, planner/arena, train/collective < executor;
	executor < executor/null, executor/operand;
	executor, internal/fileio, internal/inputfile < executor/npz;
	executor/npz, graph/onnx < executor/dataset;
	executor, sim/ort < executor/verify;
	executor/verify < executor/resident;
	internal/native < executor/cpu/dnnl;
	executor/cpu/dnnl, graph/op < executor/cpu/blas;
	executor/cpu/blas, executor/einsum, executor/operand < executor/cpu;
	executor, internal/library < executor/cuda/driver;
	executor/cuda/kernels < executor/cuda/kernels/compile;
	executor/cpu, executor/cuda/driver, executor/cuda/kernels < executor/cuda;
	executor, internal/cleanup, internal/library < executor/ort;
	executor/cpu, executor/null, executor/ort, executor/resident, graph/onnx, recompute < executor/ort/ortengine;
	planner, recompute, autograd, view/report !< executor, executor/cpu, executor/cuda, executor/verify;

	# A step as data, and the facade: no device.
	planner < view/timeline;
	view/timeline < view/torchsnapshot;
	autograd, check/planfile, configs, executor/dataset, executor/verify, graph/examples, planner/offload,
		sim/xla, view/timeline < memopt;
	executor/cpu, executor/cuda, view/report, train !< memopt;

	# Training.
	internal/fileio < train/events;
	autograd, executor < train/ortfiles;
	executor, internal/inputfile < train/safetensors;
	graph/examples, graph/onnx, train/safetensors < train/checkpoint;
	train/safetensors < train/weights;
	executor/dataset, internal/caught < train/data;
	memopt, executor/cpu, executor/null, executor/resident, internal/lowbit, train/checkpoint, train/data,
		train/events, train/schedule < train;
	train, train/collective, train/ortfiles, train/weights < train/prepare;
	executor/cuda, view/report !< train;

	# Reports, questions and their answers.
	autograd, executor/verify, graph/examples, internal/library, planner/ortmodule, train/events,
		view/timeline < view/report;
	graph/precision, view/report < answers/estimate/parts;
	view/report < view/figure, inference/edit;
	train, memopt, executor/cpu !< view/report, view/figure;
	executor/cpu/blas, executor/cuda/driver, executor/ort, view/report < answers/doctor;
	sim/snapshot, view/report < answers/snapshot;
	memopt, view/report < answers/explain, answers/fit, inference/compare;
	answers/estimate/parts, memopt, view/report < answers/estimate/parallel;
	memopt, planner/moduleplan, view/report < python/pytorch;
	answers/explain, python/pytorch < answers/diff;
	python/pytorch, sim/jax < answers/emit;
	answers/estimate/parts, python/pytorch, train < answers/estimate;
	internal/caught, view/figure < answers/sweep;
	answers/explain < view/webpage;
	executor/cpu, inference/compare, inference/edit < inference/optimize;
	inference/optimize < inference/quantize;
	executor/cuda !< answers/explain, answers/fit, answers/estimate, answers/sweep, inference/optimize;
	train !< answers/explain, answers/fit, answers/diff, inference/quantize, python/pytorch;

	# Programs.
	executor/cuda/driver, executor/ort/ortengine, internal/caught, memopt, view/report < cmd/memopt/internal/cli;
	cmd/memopt/internal/cli, python/pytorch, sim/jax < cmd/memopt/internal/load;
	cmd/memopt/internal/load, train < cmd/memopt/internal/gradcmd;
	answers/estimate/parts, cmd/memopt/internal/gradcmd, executor/cuda < cmd/memopt/internal/option;
	answers/emit, answers/explain, answers/snapshot, cmd/memopt/internal/option, view/figure, view/torchsnapshot,
		view/webpage < cmd/memopt/internal/plancmd;
	cmd/memopt/internal/plancmd < cmd/memopt/internal/runcmd;
	answers/diff, answers/doctor, answers/estimate, answers/estimate/parallel, answers/fit, check/planfile,
		cmd/memopt/internal/plancmd < cmd/memopt/internal/answercmd;
	cmd/memopt/internal/option, train/mpi, train/prepare < cmd/memopt/internal/traincmd;
	cmd/memopt/internal/option, inference/quantize < cmd/memopt/internal/forwardcmd;
	answers/sweep, cmd/memopt/internal/plancmd < cmd/memopt/internal/sweepcmd;
	cmd/memopt/internal/load < cmd/memopt/internal/instancecmd;
	cmd/memopt/internal/load, executor/cuda, train < cmd/memopt/internal/lookcmd;
	cmd/memopt/internal/answercmd, cmd/memopt/internal/forwardcmd, cmd/memopt/internal/instancecmd,
		cmd/memopt/internal/lookcmd, cmd/memopt/internal/runcmd, cmd/memopt/internal/sweepcmd,
		cmd/memopt/internal/traincmd < cmd/memopt;
	cmd/memopt/internal/option !< cmd/memopt/internal/instancecmd, cmd/memopt/internal/lookcmd;
	cmd/memopt/internal/plancmd !< cmd/memopt/internal/forwardcmd, cmd/memopt/internal/traincmd;
	executor/cpu, memopt < bench/forward;
	executor/cuda/driver, executor/dataset, view/report < bench/gpu/stages;
	bench/gpu/stages < bench/gpu;

	# Test support, which no program imports.
	internal/fileio < internal/test/answers;
	graph/op < internal/test/graphtest;
	executor/dataset < internal/test/kerneltest;
	executor/cuda/driver, executor/cuda/kernels < internal/test/double;
	NONE < internal/test/mutants, internal/test/mutate, internal/test/rapidflags, internal/test/schematest
`

// allowed parses dependencies: for each package all that it may import, and the promises.
func allowed(t *testing.T) (may map[string]map[string]bool, never [][2]string) {
	lines := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(dependencies, "")
	may = map[string]map[string]bool{}
	names := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	}
	for rule := range strings.SplitSeq(lines, ";") {
		if low, high, ok := strings.Cut(rule, "!<"); ok {
			for _, a := range names(low) {
				for _, b := range names(high) {
					never = append(never, [2]string{a, b})
				}
			}
			continue
		}
		low, high, ok := strings.Cut(rule, "<")
		require.True(t, ok, "no rule: %s", rule)
		for _, a := range names(low) {
			if may[a] == nil {
				may[a] = map[string]bool{}
			}
		}
		for _, b := range names(high) {
			if may[b] == nil {
				may[b] = map[string]bool{}
			}
			for _, a := range names(low) {
				may[b][a] = true
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for _, set := range may {
			for a := range maps.Clone(set) {
				for c := range may[a] {
					grown, set[c] = grown || !set[c], true
				}
			}
		}
	}
	return may, never
}

// TestImportOrder holds the imports of all packages to the rules, and the rules to their promises.
func TestImportOrder(t *testing.T) {
	may, never := allowed(t)
	for _, p := range never {
		require.Contains(t, may, p[0])
		require.Contains(t, may, p[1])
		require.False(t, may[p[1]][p[0]], "the rules let %s import %s, against a promise", p[1], p[0])
	}
	for name, set := range may {
		require.False(t, set[name], "the rules have a circle through %s", name)
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	require.NoError(t, err)
	seen := map[string]bool{"NONE": true}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for i := range fields {
			fields[i] = strings.TrimPrefix(fields[i], "memopt/")
		}
		pkg := fields[0]
		seen[pkg] = true
		if may[pkg] == nil {
			t.Errorf("package %s has no rule of what it may import: add one to deps_test.go", pkg)
			continue
		}
		for _, imp := range fields[1:] {
			if _, ours := may[imp]; ours && !may[pkg][imp] {
				t.Errorf("package %s imports %s, which no rule of deps_test.go lets it", pkg, imp)
			}
		}
	}
	for name := range may {
		require.True(t, seen[name], "deps_test.go has a rule for a package that is gone: %s", name)
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
