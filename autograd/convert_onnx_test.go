package autograd_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
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

// TestConvertNodes raises ONNX's conformance models: those that pass as they are pass in operator
// sets 18 and 21 too.
func TestConvertNodes(t *testing.T) {
	dirs, _ := filepath.Glob(conformanceDir + "/test_*")
	if len(dirs) == 0 {
		t.Skipf("no models in %s: apt-get install libonnx-testdata brings them", conformanceDir)
	}
	counted, raised := 0, 0
	for _, dir := range dirs {
		passes, n := convertNode(t, dir)
		if raised += n; passes {
			counted++
		}
	}
	t.Logf("%d models pass as they are; %d raised ones pass as well", counted, raised)
	require.Greater(t, counted, 800)
}

// convertNode raises one model; passes is false where it does not even pass as it is.
func convertNode(t *testing.T, dir string) (passes bool, raised int) {
	m, closer, err := onnx.Open(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return false, 0
	}
	defer closer.Close() // constants are read until the end
	if _, err := graph.InlineFunctions(m, nil); err != nil {
		return false, 0
	}
	set, err := dataset.LoadDir(filepath.Join(dir, "test_data_set_0"), m.Graph, nil)
	if err != nil || runCase(m.Clone(), set) != nil {
		return false, 0
	}
	for _, to := range []int64{18, 21} {
		c := m.Clone()
		if to <= c.OpsetVersion("") {
			continue
		}
		_, err := autograd.Convert(c, to)
		if err != nil && filepath.Base(dir) == "test_scan_sum" {
			require.ErrorContains(t, err, "Scan has no batch axis")
			continue
		}
		if err == nil {
			err = runCase(c, set)
		}
		if err != nil {
			t.Errorf("%s in operator set %d: %v", filepath.Base(dir), to, err)
			continue
		}
		raised++
	}
	return true, raised
}

// runCase compares a model's results with the expected ones.
func runCase(m *graph.Model, set *dataset.Set) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	types, err := op.Infer(m)
	if err != nil {
		return err
	}
	run, err := verify.Execute(context.Background(), verify.Side{Model: m, Types: types}, set.Inputs,
		verify.Options{Engine: verify.On(cpu.Device{}), Session: executor.Options{Threads: 1}})
	if err != nil {
		return err
	}
	for i, got := range run.Outputs {
		want, ok := set.Outputs[i]
		if !ok {
			return fmt.Errorf("no expected output %d", i)
		}
		if err := kerneltest.Compare(got.Tensor, want.Tensor, 1e-4); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}
