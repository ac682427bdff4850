package cuda_test

import (
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// integersUpTo draws int64 numbers.
func integersUpTo(t *rapid.T, lo, hi int64, shape ...int) *executor.Tensor {
	x := zerosOf(graph.Int64, shape...)
	copy(executor.Of[int64](x), rapid.SliceOfN(rapid.Int64Range(lo, hi), x.Len(), x.Len()).Draw(t, "integers"))
	return x
}

func drawMatMulInteger(t *rapid.T) kerneltest.Case {
	a, b := drawnByte.Draw(t, "A"), drawnByte.Draw(t, "B")
	m, k, n := rapid.IntRange(1, 70).Draw(t, "m"), rapid.IntRange(0, 35).Draw(t, "k"),
		rapid.IntRange(1, 70).Draw(t, "n")
	batch := rapid.SliceOfN(rapid.IntRange(1, 2), 0, 2).Draw(t, "batch")
	shapeA, shapeB := append(stretchable(t, batch), m, k), append(append([]int(nil), batch...), k, n)
	c := kerneltest.Case{Kind: op.MatMulInteger, Out: []graph.DType{graph.Int32}, In: []*executor.Tensor{
		pseudoBytes(a, 3, shapeA...), pseudoBytes(b, 5, shapeB...), nil, nil}}
	rows, columns := append([]int(nil), shapeA...), append([]int(nil), shapeB...)
	rows[len(rows)-1], columns[len(columns)-2] = 1, 1
	c.In[2] = maybe(t, pseudoBytes(a, 7, [][]int{{}, {1}, rows}[rapid.IntRange(0, 2).Draw(t, "zeros of A")]...))
	c.In[3] = maybe(t, pseudoBytes(b, 11, [][]int{{}, {n}, columns}[rapid.IntRange(0, 2).Draw(t, "zeros of B")]...))
	return c
}

// pseudoBytes fills a tensor of 8-bit integers with numbers that look random.
func pseudoBytes(d graph.DType, step int, shape ...int) *executor.Tensor {
	x := zerosOf(d, shape...)
	for i := range x.Data {
		x.Data[i] = byte(i*i*step + i*37 + step)
	}
	return x
}

func drawConvInteger(t *rapid.T) kerneltest.Case {
	x, w := drawnByte.Draw(t, "X"), drawnByte.Draw(t, "W")
	group, channels, filters := rapid.IntRange(1, 3).Draw(t, "group"), rapid.IntRange(1, 3).Draw(t, "channels"),
		rapid.IntRange(1, 3).Draw(t, "filters")
	c := kerneltest.Case{Kind: op.ConvInteger, Out: []graph.DType{graph.Int32}, Attrs: drawnWindow(t, group),
		In: []*executor.Tensor{
			pseudoBytes(x, 3, 2, group*channels, drawnLength.Draw(t, "height"), drawnLength.Draw(t, "width")),
			pseudoBytes(w, 5, group*filters, channels, rapid.IntRange(1, 3).Draw(t, "rows"),
				rapid.IntRange(1, 3).Draw(t, "columns")),
			maybe(t, pseudoBytes(x, 7)), nil}}
	if rapid.Bool().Draw(t, "by filter") {
		c.In[3] = pseudoBytes(w, 11, group*filters)
	}
	return c
}

// drawnWindow draws attributes of a window of two axes.
func drawnWindow(t *rapid.T, group int) []graph.Attr {
	list := func(name string, n int, lo, hi int64) graph.Attr {
		return kerneltest.Attr(name, rapid.SliceOfN(rapid.Int64Range(lo, hi), n, n).Draw(t, name))
	}
	return []graph.Attr{kerneltest.Attr("group", int64(group)), list("strides", 2, 1, 2), list("dilations", 2, 1, 2),
		list("pads", 4, 0, 2)}
}

func drawGridSample(t *rapid.T) kerneltest.Case {
	d, g := drawnFloat.Draw(t, "type"), drawnFloat.Draw(t, "grid's type")
	rank := rapid.IntRange(1, 3).Draw(t, "axes")
	x := append([]int{2, rapid.IntRange(1, 19).Draw(t, "channels")},
		rapid.SliceOfN(rapid.IntRange(1, 4), rank, rank).Draw(t, "plane")...)
	grid := append(append([]int{2}, rapid.SliceOfN(rapid.IntRange(1, 4), rank, rank).Draw(t, "places")...), rank)
	return kerneltest.Case{Kind: op.GridSample, Out: []graph.DType{d},
		In: []*executor.Tensor{floatsOf(t, d, 2, x...), floatsOf(t, g, 2, grid...)},
		Attrs: []graph.Attr{choice(t, "mode", "linear", "nearest", "cubic"),
			choice(t, "padding_mode", "zeros", "border", "reflection"), chosen(t, "align_corners", 0, 1)}}
}

func drawDeformConv(t *rapid.T) kerneltest.Case {
	d := drawnFloat.Draw(t, "type")
	group, groups := rapid.IntRange(1, 2).Draw(t, "group"), rapid.IntRange(1, 2).Draw(t, "offset groups")
	x := floatsOf(t, d, 1, 2, 2*group, rapid.IntRange(2, 6).Draw(t, "height"), rapid.IntRange(2, 6).Draw(t, "width"))
	w := floatsOf(t, d, 0.5, 3*group, 2, rapid.IntRange(1, 2).Draw(t, "rows"), rapid.IntRange(1, 2).Draw(t, "columns"))
	attrs := []graph.Attr{kerneltest.Attr("group", int64(group)), kerneltest.Attr("offset_group", int64(groups)),
		kerneltest.Attr("pads", []int64{1, 1, 0, 0})}
	h, v := x.Shape[2]+2-w.Shape[2], x.Shape[3]+2-w.Shape[3]
	planes := groups * w.Shape[2] * w.Shape[3]
	return kerneltest.Case{Kind: op.DeformConv, Out: []graph.DType{d}, Attrs: attrs,
		In: []*executor.Tensor{x, w, floatsOf(t, d, 4, 2, 2*planes, h, v),
			maybe(t, floatsOf(t, d, 1, 3*group)), maybe(t, floatsOf(t, d, 1, 2, planes, h, v))}}
}

func drawRoi(t *rapid.T) kerneltest.Case {
	d := drawnFloat.Draw(t, "type")
	x := floatsOf(t, d, 1, 2, 3, rapid.IntRange(1, 6).Draw(t, "height"), rapid.IntRange(1, 6).Draw(t, "width"))
	regions := rapid.IntRange(0, 3).Draw(t, "regions")
	if rapid.Bool().Draw(t, "largest") {
		rois := floatsOf(t, d, 8, regions, 5)
		for r := range regions { // the image, mostly one that is there
			copy(rois.Data[5*r*d.Bits()/8:], floatsOf(t, d, 1, 1).Data)
		}
		return kerneltest.Case{Kind: op.MaxRoiPool, Out: []graph.DType{d}, In: []*executor.Tensor{x, rois},
			Attrs: []graph.Attr{
				kerneltest.Attr("pooled_shape", []int64{2, 3}), kerneltest.Attr("spatial_scale", float32(0.5))}}
	}
	return kerneltest.Case{Kind: op.RoiAlign, Out: []graph.DType{d},
		In: []*executor.Tensor{x, floatsOf(t, d, 8, regions, 4), integersUpTo(t, 0, 2, regions)},
		Attrs: []graph.Attr{choice(t, "mode", "avg", "max"),
			choice(t, "coordinate_transformation_mode", "half_pixel", "output_half_pixel"),
			chosen(t, "sampling_ratio", 0, 2), chosen(t, "output_height", 1, 3), chosen(t, "output_width", 1, 3)}}
}

func drawCenterCropPad(t *rapid.T) kerneltest.Case {
	d := rapid.SampledFrom(movedTypes).Draw(t, "type")
	shape := drawnShape(t, 1, 4)
	return kerneltest.Case{
		Kind: op.CenterCropPad, Out: []graph.DType{d},
		In: []*executor.Tensor{counted(d, shape...), integersUpTo(t, 0, 9, len(shape))},
	}
}

func drawCol2Im(t *rapid.T) kerneltest.Case {
	d := drawnFloat.Draw(t, "type")
	image, block := integersUpTo(t, 1, 6, 2), integersUpTo(t, 1, 2, 2)
	n, b := executor.Of[int64](image), executor.Of[int64](block)
	places := max(0, n[0]+2-b[0]) * max(0, n[1]+2-b[1])
	return kerneltest.Case{Kind: op.Col2Im, Out: []graph.DType{d},
		Attrs: []graph.Attr{kerneltest.Attr("pads", []int64{1, 1, 0, 0})},
		In:    []*executor.Tensor{floatsOf(t, d, 1, 2, 3*int(b[0]*b[1]), int(places)), image, block}}
}

func drawMaxUnpool(t *rapid.T) kerneltest.Case {
	d := rapid.SampledFrom(movedTypes).Draw(t, "type")
	shape := []int{1, 2, rapid.IntRange(1, 4).Draw(t, "height"), rapid.IntRange(1, 4).Draw(t, "width")}
	plane := int64(4 * shape[2] * shape[3])
	index := zerosOf(graph.Int64, shape...)
	for i := range executor.Of[int64](index) {
		first := int64(i/(shape[2]*shape[3])) * plane
		executor.Of[int64](index)[i] = rapid.Int64Range(first-1, first+plane-1).Draw(t, "index")
		if first == 0 {
			executor.Of[int64](index)[i] = max(executor.Of[int64](index)[i], 0)
		}
	}
	full := integers(1, 2, int64(2*shape[2]+rapid.IntRange(0, 2).Draw(t, "more rows")),
		int64(2*shape[3]+rapid.IntRange(0, 2).Draw(t, "more columns")))
	return kerneltest.Case{Kind: op.MaxUnpool, Out: []graph.DType{d},
		Attrs: []graph.Attr{kerneltest.Attr("kernel_shape", []int64{2, 2}), kerneltest.Attr("strides", []int64{2, 2})},
		In:    []*executor.Tensor{counted(d, shape...), index, maybe(t, full)}}
}
