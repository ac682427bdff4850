package autograd_test

import (
	"fmt"
	"strings"
	"testing"

	"memopt/symbolic"
)

// replaceOp puts an operator's name into a graph.
func replaceOp(text, name string) string { return strings.ReplaceAll(text, "%s", name) }

// convCases makes cases from attributes and shapes, with dims as numbers and with symbolic ones.
func convCases(op string, opset int64, list [][4]string) []gradCase {
	var cases []gradCase
	for _, l := range list {
		x, w, attrs, what := l[0], l[1], l[2], l[3]
		text := fmt.Sprintf(`g (double[%s] x, double[%s] w, double[B] b) => (double[%s] y) { y = %s<%s>(x, w, b) }`,
			x, w, unknownDims(x), op, attrs)
		bias := strings.Split(w, ", ")[0]
		if op == "ConvTranspose" {
			bias = fmt.Sprint(outChannels(w, attrs))
		}
		text = strings.ReplaceAll(strings.ReplaceAll(text, "[B]", "["+bias+"]"), "<>", "")
		cases = append(cases, gradCase{Name: what, Opset: opset, Graph: text})
		env := symbolic.Env{}
		dims := strings.Split(x, ", ")
		for i, name := range []string{"N", "", "D", "H", "W"} {
			if i < len(dims) && name != "" && i != 1 {
				var n int64
				fmt.Sscan(dims[i], &n)
				env[name], dims[i] = n, name
			}
		}
		symbols := strings.Replace(text, "double["+x+"] x", "double["+strings.Join(dims, ", ")+"] x", 1)
		if !strings.Contains(attrs, "SAME") {
			cases = append(cases, gradCase{Name: what + ", symbolic", Opset: opset, Graph: symbols, Dims: env})
		}
	}
	return cases
}

func unknownDims(shape string) string {
	names := []string{"Y0", "Y1", "Y2", "Y3", "Y4"}
	return strings.Join(names[:strings.Count(shape, ",")+1], ", ")
}

func outChannels(w, attrs string) int {
	var per, group int
	fmt.Sscan(strings.Split(w, ", ")[1], &per)
	group = 1
	if i := strings.Index(attrs, "group = "); i >= 0 {
		fmt.Sscan(attrs[i+len("group = "):], &group)
	}
	return per * group
}

// TestConv: strides, dilations, pads and groups over one to three axes, where dims are numbers and
// where not.
func TestConv(t *testing.T) {
	checkGradients(t, convCases("Conv", 17, [][4]string{
		{"2, 2, 5", "3, 2, 3", "", "1-d"},
		{"2, 2, 7", "3, 2, 3", "strides = [2]", "stride"},
		{"2, 2, 8", "3, 2, 3", "strides = [2]", "stride with rest"},
		{"2, 2, 9", "3, 2, 2", "strides = [3]", "stride 3 with rest"},
		{"2, 2, 9", "3, 2, 2", "strides = [3], pads = [1, 2]", "stride and pads"},
		{"2, 2, 10", "3, 2, 2", "strides = [3], dilations = [2], pads = [2, 0]", "stride and dilation"},
		{"2, 2, 10", "3, 2, 2", "strides = [3], dilations = [4]", "dilation above stride"},
		{"2, 2, 9", "3, 2, 3", "strides = [4]", "stride above kernel"},
		{"2, 2, 5, 4", "3, 2, 3, 2", "pads = [1, 0, 1, 1]", "2-d"},
		{"2, 2, 6, 5", "3, 2, 3, 2", "pads = [1, 0, 1, 1], strides = [2, 3]", "2-d strides"},
		{"2, 2, 5, 4", "3, 2, 1, 1", "", "pointwise"},
		{"2, 2, 5, 4", "3, 2, 1, 1", "strides = [2, 2]", "pointwise stride"},
		{"2, 4, 5, 4", "6, 2, 3, 2", "group = 2", "groups"},
		{"2, 4, 6, 5", "6, 2, 3, 2", "group = 2, strides = [2, 2], pads = [1, 1, 1, 1]", "groups and strides"},
		{"2, 3, 5, 4", "3, 1, 3, 2", "group = 3", "depthwise"},
		{"2, 3, 6, 5", "6, 1, 3, 3", "group = 3, strides = [2, 1], pads = [1, 1, 1, 1]", "depthwise, more"},
		{"1, 2, 3, 4, 3", "2, 2, 2, 3, 2", "pads = [1, 1, 0, 0, 1, 1], strides = [1, 2, 1]", "3-d"},
		{"2, 2, 6", "3, 2, 3", `auto_pad = "SAME_UPPER", strides = [2]`, "same upper"},
		{"2, 2, 6", "3, 2, 3", `auto_pad = "SAME_LOWER", strides = [2]`, "same lower"},
		{"2, 2, 6", "3, 2, 2", `auto_pad = "SAME_LOWER"`, "same lower, even"},
		{"2, 2, 6", "3, 2, 3", `auto_pad = "VALID", strides = [2]`, "valid"},
	}))
	checkGradients(t, convCases("Conv",
		11, [][4]string{{"2, 2, 6, 5", "3, 2, 3, 2", "pads = [1, 0, 1, 1], strides = [2, 3]", "opset 11"}}))
	checkGradients(t, convCases("Conv",
		18, [][4]string{{"2, 2, 6, 5", "3, 2, 3, 2", "pads = [1, 0, 1, 1], strides = [2, 3]", "opset 18"}}))
	checkGradients(t, []gradCase{
		{Name: "same, symbolic",
			Graph: `g (double[2, 2, D] x, double[3, 2, 2] w) => (double[2, 3, E] y) { y = Conv<auto_pad = "SAME_UPPER">(x, w) }`,
			Dims:  symbolic.Env{"D": 5}},
		{Name: "same, symbolic, stride",
			Graph: `g (double[2, 2, D] x, double[3, 2, 2] w) => (double[2, 3, E] y) { y = Conv<auto_pad = "SAME_UPPER", strides = [2]>(x, w) }`,
			Fails: "auto_pad"},
		{Name: "crop", Graph: `g (double[2, 2, 5] x, double[3, 2, 2] w) => (double[2, 3, E] y) { y = Conv<pads = [-1, 0]>(x, w) }`,
			Fails: "negative pads"},
		{Name: "unknown channels",
			Graph: `g (double[N, C, D] x, double[M, C, 3] w) => (double[N, M, E] y) { y = Conv(x, w) }`,
			Dims:  symbolic.Env{"N": 2, "C": 3, "D": 5, "M": 2}},
		{Name: "fused",
			Graph: `g (double[2, 2, 5] x, double[3, 2, 2] w, double[3] b, double[2, 3, 4] z) => (double[2, 3, 4] y) { y = com.microsoft.FusedConv<activation = "Relu">(x, w, b, z) }`},
	})
}

// TestConvTranspose: the same for transposed convolutions.
func TestConvTranspose(t *testing.T) {
	checkGradients(t, convCases("ConvTranspose", 17, [][4]string{
		{"2, 2, 5", "2, 3, 3", "", "1-d"},
		{"2, 2, 4", "2, 3, 3", "strides = [2]", "stride"},
		{"2, 2, 4", "2, 3, 3", "strides = [2], output_padding = [1]", "output padding"},
		{"2, 2, 4", "2, 3, 3", "strides = [2], pads = [1, 1], output_padding = [1]", "pads and output padding"},
		{"2, 2, 4", "2, 3, 2", "dilations = [3], output_padding = [2]", "output padding above stride"},
		{"2, 2, 3", "2, 3, 2", "strides = [3], dilations = [2], pads = [2, 0]", "stride and dilation"},
		{"2, 2, 3, 2", "2, 3, 3, 2", "pads = [1, 0, 1, 1], strides = [2, 3]", "2-d"},
		{"2, 4, 3, 2", "4, 2, 3, 2", "group = 2, strides = [2, 2]", "groups"},
		{"2, 3, 3, 2", "3, 1, 3, 2", "group = 3, strides = [2, 2], pads = [1, 1, 1, 1]", "depthwise"},
		{"2, 2, 4", "2, 3, 1", "", "pointwise"},
		{"2, 2, 4, 3", "2, 3, 1, 1", "strides = [2, 3], output_padding = [1, 2]", "pointwise stride"},
		{"2, 2, 4", "2, 3, 1", "strides = [2], dilations = [4], output_padding = [3]",
			"pointwise, more over than a stride"},
		{"1, 2, 2, 3, 2", "2, 2, 2, 3, 2", "pads = [1, 1, 0, 0, 1, 1], strides = [1, 2, 1]", "3-d"},
		{"2, 2, 4", "2, 3, 3", `auto_pad = "SAME_UPPER", strides = [2]`, "same upper"},
		{"2, 2, 4", "2, 3, 3", `auto_pad = "SAME_LOWER", strides = [2]`, "same lower"},
	}))
	checkGradients(t, []gradCase{
		{Name: "output shape",
			Graph: `g (double[2, 2, 4] x, double[2, 3, 3] w) => (double[2, 3, 8] y) { y = ConvTranspose<strides = [2], output_shape = [8]>(x, w) }`},
	})
}

// poolCases makes cases with dims as numbers and with symbolic ones.
func poolCases(op string, opset int64, list [][3]string) []gradCase {
	var cases []gradCase
	for _, l := range list {
		x, attrs, what := l[0], l[1], l[2]
		text := fmt.Sprintf(`g (double[%s] x) => (double[%s] y) { y = %s<%s>(x) }`, x, unknownDims(x), op, attrs)
		cases = append(cases, gradCase{Name: what, Opset: opset, Graph: text})
		env, dims := symbolic.Env{}, strings.Split(x, ", ")
		for i, name := range []string{"N", "C", "D", "H", "W"} {
			if i < len(dims) {
				var n int64
				fmt.Sscan(dims[i], &n)
				env[name], dims[i] = n, name
			}
		}
		if strings.Contains(attrs, "SAME") {
			continue
		}
		symbols := strings.Replace(text, "double["+x+"] x", "double["+strings.Join(dims, ", ")+"] x", 1)
		cases = append(cases, gradCase{Name: what + ", symbolic", Opset: opset, Graph: symbols, Dims: env})
	}
	return cases
}

// TestMaxPool: windows that overlap and such that do not.
func TestMaxPool(t *testing.T) {
	list := [][3]string{
		{"2, 2, 6", "kernel_shape = [2], strides = [2]", "apart"},
		{"2, 2, 7", "kernel_shape = [3]", "overlapping"},
		{"2, 2, 6, 5", "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]", "pads"},
		{"2, 2, 7, 7", "kernel_shape = [2, 2], strides = [2, 1], dilations = [2, 3]", "dilations"},
		{"2, 2, 6, 7", "kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1", "ceil"},
		{"1, 2, 3, 4, 4", "kernel_shape = [2, 2, 2], strides = [1, 2, 2]", "3-d"},
		{"2, 2, 7", `kernel_shape = [3], strides = [2], auto_pad = "SAME_UPPER"`, "same"},
	}
	checkGradients(t, poolCases("MaxPool", 17, list))
	checkGradients(t, poolCases("MaxPool", 12, list))
	checkGradients(t, []gradCase{
		{Name: "with indices",
			Graph: `g (double[1, 2, 4, 4] x) => (double[1, 2, 2, 2] y, int64[1, 2, 2, 2] i) { y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }`},
		{Name: "order",
			Graph: `g (double[1, 2, 4, 4] x) => (double[1, 2, 2, 2] y) { y = MaxPool<kernel_shape = [2, 2], storage_order = 1>(x) }`,
			Fails: "storage_order"},
	})
}

// TestAveragePool: what is counted, and what lies beyond the last window.
func TestAveragePool(t *testing.T) {
	list := [][3]string{
		{"2, 2, 6", "kernel_shape = [2], strides = [2]", "apart"},
		{"2, 2, 7", "kernel_shape = [2], strides = [2]", "rest"},
		{"2, 2, 7", "kernel_shape = [3]", "overlapping"},
		{"2, 2, 6, 5", "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]", "pads"},
		{"2, 2, 6, 5", "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1], count_include_pad = 1",
			"pads counted"},
		{"2, 2, 6, 7", "kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1", "ceil"},
		{"2, 2, 6, 7", "kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 0, 1], ceil_mode = 1, " +
			"count_include_pad = 1", "ceil, pads counted"},
		{"2, 2, 6", "kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1", "ceil without a rest"},
		{"2, 2, 7", "kernel_shape = [2], strides = [2], ceil_mode = 1, count_include_pad = 1", "ceil with a rest"},
		{"2, 2, 5", "kernel_shape = [2], strides = [3], pads = [0, 1], ceil_mode = 1", "a last window in the padding"},
		{"1, 2, 3, 4, 4", "kernel_shape = [2, 2, 2], strides = [1, 2, 2], pads = [1, 1, 1, 1, 1, 1]", "3-d"},
		{"2, 2, 7", `kernel_shape = [4], strides = [2], auto_pad = "SAME_UPPER"`, "same"},
		{"2, 2, 7", `kernel_shape = [4], strides = [2], auto_pad = "SAME_LOWER", count_include_pad = 1`,
			"same counted"},
	}
	checkGradients(t, poolCases("AveragePool", 17, list))
	checkGradients(t, poolCases("AveragePool", 19, append(list,
		[3]string{"2, 2, 7, 7", "kernel_shape = [2, 2], strides = [2, 1], dilations = [2, 3], pads = [1, 1, 1, 1]",
			"dilations"})))
	checkGradients(t, poolCases("AveragePool", 10, list[:5]))
	n := symbolic.Env{"N": 2, "C": 3, "H": 2, "W": 4}
	checkGradients(t, []gradCase{
		{Name: "global", Graph: `g (double[2, 3, 2, 4] x) => (double[2, 3, 1, 1] y) { y = GlobalAveragePool(x) }`},
		{Name: "global 1-d", Graph: `g (double[2, 3, 4] x) => (double[2, 3, 1] y) { y = GlobalAveragePool(x) }`},
		{Name: "global symbolic",
			Graph: `g (double[N, C, H, W] x) => (double[N, C, 1, 1] y) { y = GlobalAveragePool(x) }`,
			Dims:  n},
		{Name: "global batch", Graph: `g (double[N, 3, 2, 4] x) => (double[N, 3, 1, 1] y) { y = GlobalAveragePool(x) }`,
			Dims: n},
	})
}
