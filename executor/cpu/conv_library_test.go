package cpu

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/executor/cpu/dnnl"
)

// TestConvLibraryTakes checks which convolutions and gradients oneDNN computes, those of ResNet
// among others.
func TestConvLibraryTakes(t *testing.T) {
	if !dnnl.Available() {
		t.Skipf("oneDNN is missing (%s): Debian's libdnnl2 has it", dnnl.Name())
	}
	pads := func(n int) windowAttrs { return windowAttrs{autoPad: "NOTSET", pads: []int{n, n, n, n}} }
	strided := func(n, stride int) windowAttrs {
		a := pads(n)
		a.strides = []int{stride, stride}
		return a
	}
	gradient := windowAttrs{autoPad: "NOTSET", pads: []int{1, 1, 0, 0}, dilations: []int{2, 2}}
	for _, c := range []struct {
		what                   string
		x, w                   []int
		attrs                  windowAttrs
		group                  int
		forward, data, weights bool
	}{
		{"3x3", []int{4, 64, 56, 56}, []int{64, 64, 3, 3}, pads(1), 1, true, true, true},
		{"3x3, stride 2", []int{4, 256, 14, 14}, []int{512, 256, 3, 3}, strided(1, 2), 1, true, true, true},
		{"1x1, stride 2", []int{4, 64, 56, 56}, []int{128, 64, 1, 1}, strided(0, 2), 1, true, true, true},
		{"an image", []int{4, 3, 224, 224}, []int{64, 3, 7, 7}, strided(3, 2), 1, true, false, true},
		{"gradient of weights", []int{64, 4, 56, 56}, []int{64, 4, 56, 56}, pads(1), 1, true, false, false},
		{"gradient of weights, stride 2", []int{256, 4, 14, 14}, []int{512, 4, 7, 7}, gradient, 1, true, false, false},
		{"1x1: a product", []int{4, 256, 56, 56}, []int{64, 256, 1, 1}, pads(0), 1, false, false, false},
		{"few channels", []int{4, 8, 56, 56}, []int{64, 8, 3, 3}, pads(1), 1, false, false, false},
		{"few filters", []int{4, 64, 56, 56}, []int{8, 64, 3, 3}, pads(1), 1, false, false, false},
		{"groups", []int{4, 64, 56, 56}, []int{64, 32, 3, 3}, pads(1), 2, false, false, false},
		{"three axes", []int{4, 64, 8, 14, 14}, []int{64, 64, 3, 3, 3}, windowAttrs{autoPad: "NOTSET"}, 1, false,
			false, false},
		{"small", []int{1, 16, 5, 5}, []int{16, 16, 3, 3}, pads(1), 1, false, false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			plan, err := newConvPlan(&c.attrs, c.group, c.x, c.w, 4)
			require.NoError(t, err)
			core := func() *convCore[float32] {
				return &convCore[float32]{convPlan: plan, threads: 2, lib: &convLibrary{threads: 2}}
			}
			k := core()
			k.preferLibrary()
			assert.Equal(t, c.forward, k.way == convOneDNN, "forward")
			if k.way != convOneDNN || k.lib.problem.Direction == dnnl.Forward {
				assert.Equal(t, c.data, core().takenByLibrary(dnnl.BackwardData), "data")
				assert.Equal(t, c.weights, core().takenByLibrary(dnnl.BackwardWeights), "weights")
			}
			wide := &convCore[float64]{convPlan: plan, threads: 2, lib: &convLibrary{threads: 2}}
			wide.preferLibrary()
			assert.NotEqual(t, convOneDNN, wide.way, "float64")
		})
	}
}

// TestWithoutLibrary runs the cases of convolutions and products in a process that does not open
// oneDNN: the other methods must work without it.
func TestWithoutLibrary(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run",
		"^TestCases$/^(Conv|FusedConv|ConvGrad|ConvTranspose|MatMul|Gemm|FusedMatMul|Einsum|Attention)$")
	cmd.Env = append(os.Environ(), "MEMOPT_DNNL=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, kind := range []string{"Conv", "FusedConv", "ConvGrad", "ConvTranspose"} {
		require.Contains(t, string(out), "--- PASS: TestCases/"+kind+"/blocks_of_channels ")
	}
}
