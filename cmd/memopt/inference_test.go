package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/internal/test/graphtest"
)

// TestInferenceORT: what optimize and quantize write runs in stock ONNX Runtime and gives there what it
// gives in memopt. Weights of int8 have 7 bits here: with 8, ONNX Runtime saturates on processors
// without VNNI.
func TestInferenceORT(t *testing.T) {
	needORT(t)
	files := map[string]string{}
	for _, s := range graphtest.Tiny.Files(t) {
		files[s.Name] = s.File
	}
	for _, name := range []string{"gpt2_tiny_logits", "gpt2_tiny_op17_untied", "mlp_tiny_logits", "resnet_tiny",
		"mobile_tiny", "gru_tiny", "mlp_dropout_bn_tiny"} {
		require.Contains(t, files, name)
		for _, c := range []struct {
			line string
			near float64 // how far outputs may be apart, as a share of the largest element
		}{
			{"optimize IN -o OUT/made.onnx --inference --opset 20 --check off -q", 1e-5},
			{"quantize IN -o OUT/made.onnx --inference --check off -q", 1e-4},
			{"quantize IN -o OUT/made.onnx --inference --check off --per-channel --opset 18 -q", 1e-4},
			{"quantize IN -o OUT/made.onnx --inference --check off --weight-type int8 --reduce-range -q", 1e-4},
			{"quantize IN -o OUT/made.onnx --inference --check off --weight-type int8 --per-channel --reduce-range -q",
				1e-4},
		} {
			t.Run(name+"/"+strings.Fields(c.line)[0],
				func(t *testing.T) { bothRuntimes(t, c.line, files[name], c.near) })
		}
	}
}

// bothRuntimes makes a model and runs it in memopt and in ONNX Runtime on the model's test data.
func bothRuntimes(t *testing.T, line, model string, near float64) {
	dir := t.TempDir()
	data := filepath.Join(filepath.Dir(model), "test_data_set_0")
	inputs, err := filepath.Glob(filepath.Join(data, "input_*.pb"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o777))
	for _, file := range inputs { // without the outputs, which are those of training mode
		require.NoError(t, os.Symlink(file, filepath.Join(dir, "data", filepath.Base(file))))
	}
	for _, text := range []string{line, "run OUT/made.onnx --data-dir OUT/data --save-outputs OUT/cpu -q",
		"run OUT/made.onnx --data-dir OUT/data --save-outputs OUT/ort -e ort -q"} {
		text = strings.NewReplacer("IN", model, "OUT", dir).Replace(text)
		got := inProcess(t.Context(), nil, text)
		require.Zero(t, got.code, "%s: %s", text, got.errors)
	}
	outputs, err := filepath.Glob(filepath.Join(dir, "cpu", "*.pb"))
	require.NoError(t, err)
	require.NotEmpty(t, outputs)
	for _, file := range outputs {
		own, err := dataset.ReadTensor(file)
		require.NoError(t, err)
		other, err := dataset.ReadTensor(filepath.Join(dir, "ort", filepath.Base(file)))
		require.NoError(t, err)
		require.Equal(t, own.Tensor.Shape, other.Tensor.Shape)
		a, b := executor.Of[float32](own.Tensor), executor.Of[float32](other.Tensor)
		most, apart := 0.0, 0.0
		for i := range a {
			most, apart = max(most, math.Abs(float64(a[i]))), max(apart, math.Abs(float64(a[i]-b[i])))
		}
		require.LessOrEqual(t, apart, near*most, "%s: %v of %v", own.Name, apart, most)
		t.Logf("%s: apart by %.2g of %.3g", own.Name, apart, most)
	}
}
