package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func convSize(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// convFaults are nodes that cannot run.
func convFaults() []Case {
	x, w := convRandom(graph.Float32, 1, 1, 3, 5, 5), convRandom(graph.Float32, 2, 4, 3, 3, 3)
	f := []graph.DType{graph.Float32}
	fault := func(name, text string, kind graph.Kind, attrs []graph.Attr, in ...*executor.Tensor) Case {
		return Case{Name: name, Kind: kind, Attrs: attrs, In: in, Out: f, Fails: text}
	}
	vec := convRandom(graph.Float32, 1, 3)
	return []Case{
		fault("stride 0", "attribute strides has entry 0", op.Conv, []graph.Attr{Attr("strides", []int64{0, 1})}, x, w),
		fault("one stride", "strides has 1 entries, wanted 2",
			op.Conv, []graph.Attr{Attr("strides", []int64{1})}, x, w),
		fault("short pads", "pads has 2 entries, wanted 4", op.Conv, []graph.Attr{Attr("pads", []int64{1, 1})}, x, w),
		fault("unknown auto_pad", "auto_pad", op.Conv, []graph.Attr{Attr("auto_pad", "SOME")}, x, w),
		fault("group 0", "group is 0", op.Conv, []graph.Attr{Attr("group", int64(0))}, x, w),
		fault("uneven groups", "channels in 2 groups", op.Conv, []graph.Attr{Attr("group", int64(2))}, x, w),
		fault("other channels", "channels per group", op.Conv, nil, convRandom(graph.Float32, 1, 1, 2, 5, 5), w),
		fault("rank", "rank", op.Conv, nil, vec, w),
		fault("weights' rank", "rank", op.Conv, nil, x, vec),
		fault("bias", "bias", op.Conv, nil, x, w, vec),
		fault("kernel_shape", "kernel_shape", op.Conv, []graph.Attr{Attr("kernel_shape", []int64{2, 3})}, x, w),
		fault("too small", "smaller than the kernel", op.Conv, nil, convRandom(graph.Float32, 1, 1, 3, 2, 2), w),
		fault("types", "differ", op.Conv, nil, x, convRandom(graph.Float64, 2, 4, 3, 3, 3)),
		fault("activation", "activation", op.FusedConv, []graph.Attr{Attr("activation", "Sine")}, x, w),
		fault("summand", "that of the output", op.FusedConv, nil, x, w, nil, vec),
		fault("dY", "dY", op.ConvGrad, nil, x, x, w),
		fault("weights", "weights", op.ConvTranspose, nil, x, w),
		fault("output_padding", "output_padding is 1",
			op.ConvTranspose, []graph.Attr{Attr("output_padding", []int64{1, 0})}, x,
			convRandom(graph.Float32, 2, 3, 2, 3, 3)),
		fault("output_shape", "output_shape has 1", op.ConvTranspose, []graph.Attr{Attr("output_shape", []int64{3})}, x,
			convRandom(graph.Float32, 2, 3, 2, 3, 3)),
	}
}
