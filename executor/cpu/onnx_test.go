package cpu_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/kerneltest"
	"memopt/graph"
	"memopt/graph/onnx"
)

// conformanceDir is where Debian's package libonnx-testdata puts ONNX's conformance models.
const conformanceDir = "/usr/share/libonnx-testdata/data/node"

// TestNodes runs ONNX's conformance models. ONNX_CASES=softmax,gemm lists what fails among the
// cases whose names contain one of the words.
func TestNodes(t *testing.T) {
	dirs, _ := filepath.Glob(conformanceDir + "/test_*")
	if len(dirs) == 0 {
		t.Skipf("no models in %s: apt-get install libonnx-testdata brings them", conformanceDir)
	}
	words := strings.Split(os.Getenv("ONNX_CASES"), ",")
	var passed, failed int
	unsupported := map[string]int{}
	for _, dir := range dirs {
		if !containsAny(filepath.Base(dir), words) {
			continue
		}
		err := runNode(dir)
		var none *executor.Unsupported
		switch {
		case err == nil:
			passed++
		case errors.As(err, &none):
			unsupported[err.Error()[strings.IndexByte(err.Error(), '('):]]++
		default:
			failed++
			t.Logf("%s: %v", filepath.Base(dir), err)
		}
	}
	var list []string
	for text, n := range unsupported {
		list = append(list, fmt.Sprintf("%4d %s", n, text))
	}
	sort.Strings(list)
	t.Logf("%d passed, %d failed, no kernel:\n%s", passed, failed, strings.Join(list, "\n"))
}

func containsAny(name string, words []string) bool {
	for _, w := range words {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

func runNode(dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	m, closer, err := onnx.Open(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return err
	}
	defer closer.Close()
	inputs := map[string]*executor.Tensor{}
	n := 0
	for _, d := range m.Graph.Inputs {
		x, err := readTensor(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("input_%d.pb", n)))
		if err != nil {
			return err
		}
		n++
		inputs[m.Graph.Values[d.Value].Name] = x
	}
	if err := graph.RunPasses(m, graph.Pass{Name: "inline", Run: graph.InlineFunctions}); err != nil {
		return err
	}
	outs, err := kerneltest.Interpret(cpu.Device{}, m, inputs)
	if err != nil {
		return err
	}
	for i, got := range outs {
		want, err := readTensor(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("output_%d.pb", i)))
		if err != nil {
			return err
		}
		if err := kerneltest.Compare(got, want, 1e-4); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

func readTensor(file string) (*executor.Tensor, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t, err := onnx.DecodeTensor(data, file)
	if err != nil {
		return nil, err
	}
	return kerneltest.FromData(t)
}
