package cpu_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// conformanceDir is where Debian's package libonnx-testdata puts ONNX's conformance models.
const conformanceDir = "/usr/share/libonnx-testdata/data/node"

// knownFile lists the conformance cases that do not pass, each with its reason.
// UPDATE_CONFORMANCE=1 writes it.
const knownFile = "testdata/conformance.txt"

// excluded names, by parts of their names, the cases that a tensor executor for training has no use
// for.
var excluded = []string{"sequence", "optional", "_opt", "_seq", "STRING", "strnorm", "tfidf", "quantize",
	"qlinear", "integer"}

// TestNodes runs ONNX's conformance models: at least 90 % of those that are not excluded pass, none
// crashes, and the list of the others is up to date. ONNX_CASES=softmax,gemm runs only the cases
// whose names contain one of the words.
func TestNodes(t *testing.T) {
	dirs, _ := filepath.Glob(conformanceDir + "/test_*")
	if len(dirs) == 0 {
		t.Skipf("no models in %s: apt-get install libonnx-testdata brings them", conformanceDir)
	}
	words := os.Getenv("ONNX_CASES")
	var passed, counted, countedPassed int
	var known []string
	var held [op.NumKinds]bool // by a model of the operator alone
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if !containsAny(name, strings.Split(words, ",")) {
			continue
		}
		kind, err := runNode(dir)
		out := containsAny(name, excluded)
		if err == nil {
			passed++
			held[kind] = true
		} else {
			known = append(known, name+": "+reason(name, err))
		}
		if !out {
			if counted++; err == nil {
				countedPassed++
			}
		}
	}
	t.Logf("%d of %d cases pass; of the %d that are not about sequences, optionals, strings or quantization, %d pass",
		passed, passed+len(known), counted, countedPassed)
	if words != "" {
		t.Log(strings.Join(known, "\n"))
		return
	}
	if 10*countedPassed < 9*counted {
		t.Errorf("fewer than 90 %% pass")
	}
	for _, k := range known {
		if strings.Contains(k, "FAULT") {
			t.Error(k)
		}
	}
	checkKnown(t, known)
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		by := kerneltest.OracleOf(k).By&kerneltest.NodeTests != 0
		if by != held[k] && !executor.RunsItself(k) {
			t.Errorf("op %s: ONNX's node tests hold it: %v; internal/test/kerneltest/oracle_table.go says %v",
				op.Of(k).Name, held[k], by)
		}
	}
}

// reasons say why cases do not pass, by a part of the case's name and a part of the error. The
// first one that matches counts; a case that matches none is a failure.
var reasons = []struct{ name, err, why string }{
	{"", "wanted 7 or newer", "the model imports an operator set older than 7, the oldest that memopt reads"},
	{"sequence", "", "sequences: the executor has tensors only"},
	{"_seq", "", "sequences: the executor has tensors only"},
	{"optional", "", "optionals: the executor has tensors only"},
	{"_opt", "", "optionals: the executor has tensors only"},
	{"STRING", "string", "strings: the executor has numbers and bools only"},
	{"strnormalizer", "string", "strings: the executor has numbers and bools only"},
	{"tfidf", "no kernel", "text features: no training graph computes them"},
	{"bernoulli", "wanted", "the expected output is a draw of numpy's generator; memopt draws by Philox"},
	{"training_dropout", "wanted", "the expected output is a draw of numpy's generator; memopt draws by Philox"},
	{"FLOAT_to_BFLOAT16", "element", "the expected output is truncated; the specification rounds to nearest"},
	{"castlike_", "wanted", "the data have shape [1], the model declares [3, 4]"},
	{"adagrad", "no kernel", "a preview operator (ai.onnx.preview.training) that no exporter writes"},
	{"adam", "no kernel", "a preview operator (ai.onnx.preview.training) that no exporter writes"},
	{"momentum", "no kernel", "a preview operator (ai.onnx.preview.training) that no exporter writes"},
}

// reason says why a case does not pass.
func reason(name string, err error) string {
	for _, r := range reasons {
		if strings.Contains(name, r.name) && strings.Contains(err.Error(), r.err) {
			return r.why
		}
	}
	return "FAULT: " + strings.ReplaceAll(err.Error(), "\n", " ")
}

// checkKnown compares the cases that do not pass with the list in the repository.
func checkKnown(t *testing.T, known []string) {
	text := strings.Join(known, "\n") + "\n"
	if os.Getenv("UPDATE_CONFORMANCE") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile(knownFile, []byte(text), 0o666))
		return
	}
	want, err := os.ReadFile(knownFile)
	require.NoError(t, err)
	require.Equal(t, string(want), text,
		"%s is out of date: UPDATE_CONFORMANCE=1 go test ./executor/cpu -run TestNodes writes it; look at the "+
			"difference first", knownFile)
}

func containsAny(name string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
}

// runNode runs a model in a session with guards behind all buffers, and compares with the expected
// outputs and with the plain interpreter. It returns the kind of the model's node, if it has only
// one.
func runNode(dir string) (kind graph.Kind, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	m, closer, err := onnx.Open(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return kind, err
	}
	defer closer.Close()
	var types *op.Result
	infer := func(m *graph.Model) (bool, error) { types, err = op.Infer(m); return false, err }
	if err := graph.RunPasses(m, graph.Pass{Name: "inline", Run: op.InlineFunctions},
		graph.Pass{Name: "infer", Run: infer}); err != nil {
		return kind, err
	}
	if nodes := m.Graph.Nodes; len(nodes) == 1 {
		kind = nodes[0].Kind
	}
	set, err := dataset.LoadDir(filepath.Join(dir, "test_data_set_0"), m.Graph, nil)
	if err != nil {
		return kind, err
	}
	declare(m.Graph, set)
	run, err := verify.Execute(context.Background(), verify.Side{Model: m, Types: types}, set.Inputs,
		verify.Options{Engine: verify.On(cpu.Device{}), Session: executor.Options{Threads: 2, Guard: true}, Repeat: 2,
			Independent: true})
	if err != nil {
		return kind, err
	}
	plain, plainErr := kerneltest.Interpret(cpu.Device{}, m, set.Inputs)
	for i, got := range run.Outputs {
		want, ok := set.Outputs[i]
		if !ok {
			return kind, fmt.Errorf("no expected output %d", i)
		}
		if err := kerneltest.Compare(got.Tensor, want.Tensor, 1e-4); err != nil {
			return kind, fmt.Errorf("output %d: %w", i, err)
		}
		if plainErr == nil && !seedless(m) {
			if err := kerneltest.Compare(plain[i], got.Tensor, 0); err != nil {
				return kind, fmt.Errorf("output %d of the plain interpreter: %w", i, err)
			}
		}
	}
	return kind, nil
}

// declare gives test data the declared type: ONNX 1.12 stores bfloat16 as uint16.
func declare(g *graph.Graph, set *dataset.Set) {
	as := func(d graph.Decl, t *executor.Tensor) {
		if want := g.Values[d.Value].Type.DType; t != nil && t.DType == graph.Uint16 && want == graph.BFloat16 {
			t.DType = want
		}
	}
	for _, d := range g.Inputs {
		as(d, set.Inputs[g.Values[d.Value].Name])
	}
	for i, d := range g.Outputs {
		as(d, set.Outputs[i].Tensor)
	}
}

// seedless reports whether a node draws from a seed that differs between executors.
func seedless(m *graph.Model) bool {
	return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return op.Of(n.Kind).Random })
}
