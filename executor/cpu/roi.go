package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// roiBound bounds the size of a region in elements of the input.
const roiBound = 1 << 16

// roiCore is the common part of RoiAlign and MaxRoiPool: regions of X [N, C, H, W] are pooled to
// [R, C, height, width].
type roiCore[T convFloat] struct {
	height, width   int
	scale           float64
	n, c, inH, inW  int
	regions, stride int // elements per region in rois
	x, rois, y      []T
}

// begin checks the data and the regions.
func (k *roiCore[T]) begin(c *executor.Ctx, stride int) (*executor.Tensor, error) {
	x, rois := c.In(0), c.In(1)
	if x.Rank() != 4 {
		return nil, c.Errorf("input 0 has rank %d, wanted 4", x.Rank())
	}
	if rois.Rank() != 2 || rois.Shape[1] != stride {
		return nil, c.Errorf("input 1 (regions) has shape %v, wanted [regions, %d]", rois.Shape, stride)
	}
	k.n, k.c, k.inH, k.inW = x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	k.regions, k.stride = rois.Shape[0], stride
	k.x, k.rois = executor.Of[T](x), executor.Of[T](rois)
	for i, v := range k.rois {
		if !(math.Abs(float64(v)*k.scale) < roiBound) {
			return nil, c.Errorf("input 1 has %g at element %d, which is not a coordinate in a "+
				"plane", float64(v), i)
		}
	}
	if k.inH*k.inW == 0 && k.regions > 0 {
		return nil, c.Errorf("input 0 has shape %v: its planes are empty", x.Shape)
	}
	y := c.Out(0, k.regions, k.c, k.height, k.width)
	if y != nil {
		k.y = executor.Of[T](y)
	}
	return y, nil
}

// roiAlign is RoiAlign: every region is cut into height x width bins, and the data of each bin is
// interpolated at a grid of points; the result is their mean or their largest. In mode max the four
// weighted neighbours of a point count individually, as in ONNX's reference.
//
// https://onnx.ai/onnx/operators/onnx__RoiAlign.html
type roiAlign[T convFloat] struct {
	roiCore[T]
	max    bool
	ratio  int     // points per bin and axis; 0 means as many as it has elements
	offset float64 // of the centre of an element
	batch  []int64
}

// newRoiAlign makes a RoiAlign.
func newRoiAlign(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newRoiAlignOf[float32](p)
	case graph.Float64:
		return newRoiAlignOf[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newRoiAlignOf[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	if p.DType(1) != p.DType(0) || p.DType(2) != graph.Int64 {
		return nil, unsupportedTypes(p)
	}
	n := p.Node
	h, w, ratio := n.Int("output_height", 1), n.Int("output_width", 1), n.Int("sampling_ratio", 0)
	mode, coordinates := n.Str("mode", "avg"), "output_half_pixel"
	if p.Version >= 16 {
		coordinates = n.Str("coordinate_transformation_mode", "half_pixel")
	}
	if h < 1 || w < 1 || h > windowBound || w > windowBound || ratio < 0 || ratio > roiBound {
		return nil, p.Errorf("output_height is %d, output_width %d and sampling_ratio %d, wanted at least 1, 1 and 0",
			h, w, ratio)
	}
	if !isOneOf(mode, "avg", "max") || !isOneOf(coordinates, "half_pixel", "output_half_pixel") {
		return nil, p.Errorf("mode is %q and coordinate_transformation_mode %q; wanted avg or max, half_pixel or "+
			"output_half_pixel", mode, coordinates)
	}
	k := &roiAlign[T]{max: mode == "max", ratio: int(ratio)}
	k.height, k.width, k.scale = int(h), int(w), float64(n.Float("spatial_scale", 1))
	if coordinates == "half_pixel" {
		k.offset = 0.5
	}
	return k, nil
}

// Run checks the operands and pools.
func (k *roiAlign[T]) Run(c *executor.Ctx) error {
	y, err := k.begin(c, 4)
	if err != nil || y == nil {
		return err
	}
	batch := c.In(2)
	k.batch = executor.Of[int64](batch)
	if batch.Rank() != 1 || len(k.batch) != k.regions {
		return c.Errorf("input 2 (batch_indices) has shape %v; there are %d regions", batch.Shape, k.regions)
	}
	for i, b := range k.batch {
		if b < 0 || b >= int64(k.n) {
			return c.Errorf("input 2 has %d at element %d; the batch has %d", b, i, k.n)
		}
	}
	c.Parallel(k.regions*k.c, 1+1<<12/(k.height*k.width), k)
	return nil
}

// roiGrid is one axis of a region.
type roiGrid struct {
	start, bin float64
	points     int // per bin
}

func (k *roiAlign[T]) grid(lo, hi T, bins int) roiGrid {
	start, end := float64(lo)*k.scale-k.offset, float64(hi)*k.scale-k.offset
	length := end - start
	if k.offset == 0 {
		length = max(length, 1)
	}
	g := roiGrid{start: start, bin: length / float64(bins), points: k.ratio}
	if k.ratio == 0 {
		g.points = int(math.Ceil(g.bin))
	}
	return g
}

// at returns point i of bin b.
func (g *roiGrid) at(b, i int) float64 {
	return g.start + float64(b)*g.bin + (float64(i)+0.5)*g.bin/float64(g.points)
}

// Range pools the planes lo..hi-1: plane i is channel i%C of region i/C.
func (k *roiAlign[T]) Range(lo, hi int) {
	plane := k.inH * k.inW
	for i := lo; i < hi; i++ {
		r, c := i/k.c, i%k.c
		box := k.rois[r*4:][:4]
		x := k.x[(int(k.batch[r])*k.c+c)*plane:][:plane]
		y := k.y[i*k.height*k.width:]
		gx, gy := k.grid(box[0], box[2], k.width), k.grid(box[1], box[3], k.height)
		for ph := range k.height {
			for pw := range k.width {
				y[ph*k.width+pw] = k.bin(x, &gy, &gx, ph, pw)
			}
		}
	}
}

// bin pools one bin.
func (k *roiAlign[T]) bin(x []T, gy, gx *roiGrid, ph, pw int) T {
	sum, largest := 0.0, math.Inf(-1)
	for iy := range gy.points {
		for ix := range gx.points {
			v := roiCorners(x, k.inH, k.inW, gy.at(ph, iy), gx.at(pw, ix))
			sum += v[0] + v[1] + v[2] + v[3]
			largest = max(largest, v[0], v[1], v[2], v[3])
		}
	}
	n := max(gy.points, 0) * max(gx.points, 0)
	switch {
	case n == 0:
		return 0
	case k.max:
		return T(largest)
	}
	return T(sum / float64(n))
}

// roiCorners returns the weighted neighbours of a point of a plane.
func roiCorners[T convFloat](x []T, height, width int, y, at float64) (v [4]float64) {
	if !(y >= -1 && y <= float64(height) && at >= -1 && at <= float64(width)) {
		return v
	}
	y0, y1, fy := roiNeighbours(y, height)
	x0, x1, fx := roiNeighbours(at, width)
	return [4]float64{
		(1 - fy) * (1 - fx) * float64(x[y0*width+x0]), (1 - fy) * fx * float64(x[y0*width+x1]),
		fy * (1 - fx) * float64(x[y1*width+x0]), fy * fx * float64(x[y1*width+x1])}
}

// roiNeighbours returns the elements beside a place, and how far it is from the first.
func roiNeighbours(at float64, n int) (lo, hi int, far float64) {
	at = max(at, 0)
	lo = int(at)
	if lo >= n-1 {
		return n - 1, n - 1, 0
	}
	return lo, lo + 1, at - float64(lo)
}

// maxRoiPool is MaxRoiPool: the largest element in every bin of a region, whose corners are rounded
// to elements. A region is its image and x1, y1, x2, y2, the last ones included; an empty bin gives
// 0.
//
// https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html
type maxRoiPool[T convFloat] struct{ roiCore[T] }

// newMaxRoiPool makes a MaxRoiPool.
func newMaxRoiPool(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newMaxRoiPoolOf[float32](p)
	case graph.Float64:
		return newMaxRoiPoolOf[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newMaxRoiPoolOf[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	shape, err := windowInts(p, "pooled_shape", 1)
	if err != nil {
		return nil, err
	}
	if len(shape) != 2 {
		return nil, p.Errorf("attribute pooled_shape has %d entries, wanted 2", len(shape))
	}
	k := &maxRoiPool[T]{}
	k.height, k.width, k.scale = shape[0], shape[1], float64(p.Node.Float("spatial_scale", 1))
	return k, nil
}

// Run checks the operands and pools.
func (k *maxRoiPool[T]) Run(c *executor.Ctx) error {
	y, err := k.begin(c, 5)
	if err != nil || y == nil {
		return err
	}
	for r := range k.regions {
		if b := float64(k.rois[r*5]); !(b >= 0 && b < float64(k.n)) {
			return c.Errorf("input 1 has image %g for region %d; the batch has %d", b, r, k.n)
		}
	}
	c.Parallel(k.regions*k.c, 1+1<<12/(k.height*k.width), k)
	return nil
}

// Range pools the planes lo..hi-1: plane i is channel i%C of region i/C.
func (k *maxRoiPool[T]) Range(lo, hi int) {
	plane := k.inH * k.inW
	for i := lo; i < hi; i++ {
		r, c := i/k.c, i%k.c
		box := k.rois[r*5:][:5]
		x := k.x[(int(box[0])*k.c+c)*plane:][:plane]
		y := k.y[i*k.height*k.width:]
		for ph := range k.height {
			h0, h1 := k.span(box[2], box[4], ph, k.height, k.inH)
			for pw := range k.width {
				w0, w1 := k.span(box[1], box[3], pw, k.width, k.inW)
				y[ph*k.width+pw] = roiMax(x, h0, h1, w0, w1, k.inW)
			}
		}
	}
}

// span returns the elements of bin b of an axis.
func (k *maxRoiPool[T]) span(from, to T, b, bins, n int) (lo, hi int) {
	start := math.Round(float64(from) * k.scale)
	bin := max(math.Round(float64(to)*k.scale)-start+1, 1) / float64(bins)
	lo = int(math.Floor(float64(b)*bin) + start)
	hi = int(math.Ceil(float64(b+1)*bin) + start)
	return min(max(lo, 0), n), min(max(hi, 0), n)
}

// roiMax returns the largest element of a rectangle, or 0 for an empty one.
func roiMax[T convFloat](x []T, h0, h1, w0, w1, width int) T {
	if h0 >= h1 || w0 >= w1 {
		return 0
	}
	best := x[h0*width+w0]
	for h := h0; h < h1; h++ {
		for _, v := range x[h*width+w0 : h*width+w1] {
			best = max(best, v)
		}
	}
	return best
}
