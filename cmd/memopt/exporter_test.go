package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/executor/npz"
)

// TestFilesOfExporter reads files of small modules by PyTorch's exporter (bench/torch2/exporter.py): each
// file differentiates, says how the exporter changed the program, and where it kept the program has
// PyTorch's gradients.
func TestFilesOfExporter(t *testing.T) {
	folder, err := filepath.Abs(filepath.Join("testdata", "pytorch", "exporter"))
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		says []string
		kept bool // the program's parameters
		// unplanned is why no plan for modules can be made.
		unplanned string
	}{
		{"fresh", []string{
			`"norm.0.weight" stands for 2 more parameters of the program (norm.1.weight, last.weight)`,
			`is the transpose of "head.weight", and they train apart`}, false, ""},
		{"fresh-raw", nil, true, ""},
		{"batchnorms", []string{"the exporter folded 2 batch norms into the weights before (norm, last)"}, false, ""},
		{"batchnorms-raw", []string{"2 nodes BatchNormalization are in inference mode"}, false, ""},
		{"splits", nil, false, ""}, // its weights are folded into their transposes
		{"splits-raw", nil, true, ""},
		{"pairs", []string{
			"1 parameter of the program (temperature) was computed into others by the exporter, which train in its",
			`1 initializer was computed of "mix" by the exporter`, "gradients of 5 parameters"}, false, ""},
		{"pairs-raw", nil, true, ""},
		{"bags", nil, true, "unknown dimension"},
		{"bags-raw", nil, true, "unknown dimension"},
		{"masked-script", nil, true, ""}, // softmaxes of -∞ alone
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			model := filepath.Join(folder, c.name+".onnx")
			end := inProcess(t.Context(), nil, "grad "+model+" -o step.onnx")
			require.Zero(t, end.code, end.errors)
			for _, text := range c.says {
				require.Contains(t, strings.Join(strings.Fields(end.out+" "+end.errors), " "), text)
			}
			if c.kept {
				require.NotContains(t, end.errors, "warning")
				name, _, _ := strings.Cut(c.name, "-")
				sameGradients(t, filepath.Join(folder, name+".npz"))
			}
			end = inProcess(t.Context(), nil, "plan "+model+" --select modules --dim batch=2")
			if c.unplanned != "" { // the iterations of a loop are known at run time
				require.Equal(t, cli.ExitUsage, end.code)
				require.Contains(t, end.errors, c.unplanned)
				return
			}
			require.Zero(t, end.code, end.errors)
		})
	}
}

// sameGradients runs step.onnx on the inputs of a file and compares the gradients that the file has.
func sameGradients(t *testing.T, path string) {
	t.Helper()
	arrays, err := npz.Read(path)
	require.NoError(t, err)
	want := map[string]*executor.Tensor{}
	var in []npz.Array
	for _, a := range arrays {
		if want[a.Name] = a.Tensor; a.Name == "x" || a.Name == "y" {
			in = append(in, a)
		}
	}
	writeArrays(t, "in.npz", in)
	end := inProcess(t.Context(), nil, "run step.onnx --data-dir in.npz --dim batch=2 --save-outputs out.npz "+
		"--warmup 0 -q")
	require.Zero(t, end.code, end.errors)
	got, err := npz.Read("out.npz")
	require.NoError(t, err)
	compared := 0
	for _, a := range got {
		name, isGradient := strings.CutSuffix(a.Name, "_grad")
		if !isGradient {
			continue
		}
		if compared++; name == "head.weight" { // the embedding, too
			name = "embed.weight"
		}
		grad := want["grad:"+name]
		require.NotNil(t, grad, name)
		require.Equal(t, grad.Shape, a.Tensor.Shape, name)
		x, y := executor.Of[float32](grad), executor.Of[float32](a.Tensor)
		for i := range x {
			require.LessOrEqual(t, math.Abs(float64(x[i]-y[i])), 1e-6, "%s, element %d", name, i)
		}
	}
	require.Positive(t, compared)
	require.Len(t, want, compared+3, "the loss, two inputs, and a gradient of each parameter")
}

// writeArrays writes arrays to a file.
func writeArrays(t *testing.T, path string, arrays []npz.Array) {
	t.Helper()
	w, err := npz.Create(path)
	require.NoError(t, err)
	for _, a := range arrays {
		require.NoError(t, w.Add(a.Name, a.Tensor))
	}
	require.NoError(t, w.Close())
}

// TestMergedParameters: parameters that the exporter merged train only if they are told to.
func TestMergedParameters(t *testing.T) {
	folder, err := filepath.Abs(filepath.Join("testdata", "pytorch", "exporter"))
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	arrays, err := npz.Read(filepath.Join(folder, "fresh.npz"))
	require.NoError(t, err)
	inputs := slices.DeleteFunc(arrays, func(a npz.Array) bool { return a.Name != "x" && a.Name != "y" })
	writeArrays(t, "in.npz", inputs)
	job := " --data in.npz --batch 2 --max-steps 1 -o job"
	end := inProcess(t.Context(), nil, "train "+filepath.Join(folder, "fresh.onnx")+job)
	require.Equal(t, cli.ExitInvalid, end.code, end.errors)
	require.Contains(t, end.errors, `"norm.0.weight" stands for 2 more parameters of the program (norm.1.weight, `+
		`last.weight): the job would train them as one`)
	require.NoFileExists(t, filepath.Join("job", "checkpoints"))
	for _, line := range []string{"fresh.onnx --allow-merged", "fresh.onnx --dry-run",
		"fresh.onnx --freeze norm.0.*,head.weight", "fresh-raw.onnx"} {
		require.NoError(t, os.RemoveAll("job"))
		end = inProcess(t.Context(), nil, "train "+filepath.Join(folder, line)+job)
		require.Zero(t, end.code, end.errors)
	}
	end = inProcess(t.Context(), nil, "train "+filepath.Join(folder, "fresh.onnx")+job+" --freeze norm.0.*")
	require.Equal(t, cli.ExitInvalid, end.code, end.errors)
	require.Contains(t, end.errors, "and its transpose")
	arrays, err = npz.Read(filepath.Join(folder, "pairs.npz"))
	require.NoError(t, err)
	inputs = slices.DeleteFunc(arrays, func(a npz.Array) bool { return a.Name != "x" && a.Name != "y" })
	writeArrays(t, "in.npz", inputs)
	end = inProcess(t.Context(), nil, "train "+filepath.Join(folder, "pairs.onnx")+job)
	require.Equal(t, cli.ExitInvalid, end.code, end.errors)
	require.Contains(t, end.errors, `the job would train "mix" apart from the values that the exporter computed of it (sub)`)
}

// TestSymbolsOfExporter: a file whose inputs have symbols of their own for two sizes is bound by two; symbols
// that --dim names stay apart, and training wants equal sizes.
func TestSymbolsOfExporter(t *testing.T) {
	folder, err := filepath.Abs(filepath.Join("testdata", "pytorch", "exporter"))
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	model := filepath.Join(folder, "symbols.onnx")
	plan := func(dims, says string) string {
		end := inProcess(t.Context(), nil, "plan "+model+dims)
		require.Zero(t, end.code, end.errors)
		if says == "" {
			require.NotContains(t, end.errors, "taken as equal")
		} else {
			require.Contains(t, end.errors, "named apart: "+says+"; --dim ")
		}
		return strings.Join(strings.Fields(end.out), " ")
	}
	require.Contains(t, plan("", "s38 as s53, s43 and s97 as s72"), "bind s53, s72 with --dim s53=8,s72=2 (")
	peak := func(out string) string {
		_, rest, found := strings.Cut(out, "Peak: ")
		require.True(t, found, out)
		return strings.SplitN(rest, ";", 2)[0]
	}
	want := peak(plan(" --dim s53=8,s72=2,s38=8,s43=2,s97=2", ""))
	require.Equal(t, want, peak(plan(" --dim s53=8,s72=2", "s38 as s53, s43 and s97 as s72")))
	require.Equal(t, want, peak(plan(" --dim s53=8,s72=2 --dim s43=5", "s38 as s53, s97 as s72")))
	require.Contains(t, plan(" --dim s53=8,s72=2,s97=4", "s43 as s72"), "bind s38 with")
	require.Contains(t, plan(" --dim s72=2,s53=1..8,s97=1..2", "s43 as s72"), "Sizes are not known")

	end := inProcess(t.Context(), nil, "apply "+model+" --dim s53=8,s72=2 --budget 80% -o out.onnx")
	require.Zero(t, end.code, end.errors)
	end = inProcess(t.Context(), nil, "verify "+model+" out.onnx --dim s53=8,s72=2 --init random:1")
	require.Zero(t, end.code, end.out+end.errors)
}
