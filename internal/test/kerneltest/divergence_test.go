//go:build linux && (amd64 || arm64) && !nodl

package kerneltest_test

import (
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// divergence is why ONNX Runtime 1.30 computes something else than cases want.
type divergence struct {
	kind graph.Kind
	part string // of the case's name
	why  string
	// ends: the runtime ends the process, so that it is not given the case.
	ends bool
	// sometimes: it depends on the processor, or on what lies in memory.
	sometimes bool
}

// fits reports whether a divergence is about a case.
func (d divergence) fits(c *kerneltest.Case) bool {
	return d.kind == c.Kind && strings.Contains(c.Name, d.part)
}

// Reasons that several operators share.
const (
	leastByOne  = "the processor refuses to divide the least integer by -1, and the runtime divides it"
	ofNothing   = "the runtime looks at the first element where there is none"
	noBias      = "the runtime reads the bias, which may be left out, without looking whether it is there"
	noNaN       = "the runtime's comparisons pass NaN over; the case follows NumPy"
	outOfRange  = "a number that the type does not hold: C++ leaves the result open"
	oneOfWindow = "a window of one element is 0/0 in the runtime; the case follows SciPy"
	unmoved     = "without steps the state stays as it was; the runtime gives zeros"
	noPast      = "the runtime passes the past over where the present is not asked for"
)

// divergences are all of them. What ends the runtime comes first.
var divergences = slices.Concat(
	ending(leastByOne, op.Div, "signs"),
	ending(leastByOne, op.Mod, "signs int"),
	ending("the runtime writes to the output that is left out", op.Split, "output left out"),
	ending("the runtime reads beyond an ellipsis that is shorter", op.Einsum, "...i,...i->... [[4] [3 4]]"),
	ending(ofNothing, op.TopK, "of [0 4]"),
	ending(ofNothing, op.Unique, "empty rows"),
	ending(ofNothing, op.GRU, "no batch", "no steps", "no inputs"),
	ending(ofNothing, op.LSTM, "no batch"),
	ending(noBias, op.AttentionMS, "plain project", "causal project", "present project", "padding project",
		"padding of each query project", "lengths project", "empty project", "ends and starts", "wide values"),

	varying(noNaN, op.ArgMax, "NaN"),
	varying(noNaN, op.ArgMin, "NaN"),
	varying(noNaN, op.Hardmax, "NaN"),
	varying(noNaN, op.MaxPool, "NaN and infinities", "NaN without indices"),
	varying(noNaN, op.ReduceMax, "NaN"),
	varying(noNaN, op.ScatterElements, "max with NaN"),
	varying(noNaN, op.TopK, "NaN"),
	differing("the runtime takes NaN for equal to NaN; NumPy until 1.21 and the case do not", op.Unique, "NaN"),
	differing("the runtime gives 0 for NaN in 16 bits, and NaN in more", op.Sign, "special"),

	varying(outOfRange, op.Cast, "bounds", "edge"),
	differing("the runtime rounds to float32 first, and so twice", op.Cast, "double to float8"),
	varying(outOfRange, op.Pow, "negative exponents", "wraps"),
	varying(outOfRange, op.QuantizeLinear, "halves and infinities"),
	varying(outOfRange, op.Range, "far ends"),

	differing(oneOfWindow, op.BlackmanWindow, "one"),
	differing(oneOfWindow, op.HammingWindow, "one"),
	differing(oneOfWindow, op.HannWindow, "one"),

	differing(unmoved, op.GRU, "lengths"),
	differing(unmoved, op.LSTM, "lengths", "no steps"),
	differing(unmoved, op.RNN, "lengths", "no steps"),
	differing("the runtime does not clip the cell's state, which is an activation's input, too", op.LSTM, "clip"),

	differing("where a sum has no terms, the runtime forgets beta", op.Gemm, "2x3x0 false false 1 0.5 [2 1]"),
	differing("the mean of nothing is NaN to NumPy, and 0 to the runtime", op.ReduceMean, "nothing in"),

	differing(noPast, op.MultiHeadAttention, "bias of scores ", "past without present "),
	differing("the runtime draws by another generator, whose mask differs", op.Dropout, "training", "large",
		"operator set", "without mask", "infinities and NaN", "seed of the session", "ratio"),
	differing("the runtime passes over memopt's own metadata, which says from which element of the whole a part draws",
		op.Dropout, "from "),
	differing("output 4 is the variance to ONNX; the runtime gives the inverse of the deviation", op.BatchNormalization,
		"version 7 training true", "version 9 training true"),
	differing("the runtime puts the only place of an axis at its end; PyTorch puts it in the middle", op.AffineGrid,
		"3 axes, align 1"),
	differing("frequencies beyond the middle are those of the rest of a signal to the runtime; ONNX's reference cuts "+
		"them off", op.DFT, "[3,5,2,2] axis 1 length 5 inverse true", "[3,8,2,2] axis 1 length 5 inverse true",
		"[3,12,2,2] axis 1 length 5 inverse true"),
	differing("the runtime does not multiply both parts of a complex number by the window's element", op.STFT,
		"[1,16,2] step 8 frame 8 window true"),
	differing("places that are no numbers: the runtime converts them to some element", op.GridSample,
		"float[1,1,2,2], linear, zeros, align 0"),
	differing("the runtime takes indices for those of output_shape; ONNX's node test for those of the shape that "+
		"the attributes give", op.MaxUnpool, "output_shape"),
	differing("ONNX casts indices that are no integers; the runtime compares them as they are", op.OneHot, "floats"),
	differing("a list of no axes names none to NumPy, and all to the runtime", op.Squeeze, "no axes"),

	varying("NaN counts or not by the place that it has", op.ReduceMin, "NaN"),
	varying("the runtime reads beyond the operand where pads are longer than it", op.Pad, "wrapfloat[5] [9 12]"),
	varying("without VNNI, sums of two products of uint8 and int8 are cut to 16 bits", op.QLinearConv, "mixed types"),
)

// ending makes the divergences of cases that end the runtime.
func ending(why string, kind graph.Kind, parts ...string) []divergence {
	list := differing(why, kind, parts...)
	for i := range list {
		list[i].ends = true
	}
	return list
}

// varying makes those that are not seen everywhere.
func varying(why string, kind graph.Kind, parts ...string) []divergence {
	list := differing(why, kind, parts...)
	for i := range list {
		list[i].sometimes = true
	}
	return list
}

// differing makes those of cases that have other results.
func differing(why string, kind graph.Kind, parts ...string) []divergence {
	var list []divergence
	for _, p := range parts {
		list = append(list, divergence{kind: kind, part: p, why: why})
	}
	return list
}
