package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// gridSample is GridSample: X [N, C, d1…dk] is sampled at the places in grid [N, e1…ek, k], which
// gives Y [N, C, e1…ek]. A place lists coordinates from the last axis to the first, from -1 to 1
// over the whole axis: between the centres of the outermost elements with align_corners, else
// between their outer edges.
//
// https://onnx.ai/onnx/operators/onnx__GridSample.html
type gridSample[T, G convFloat] struct {
	mode, padding   string
	align           bool
	shape           []int
	rank            int                // spatial axes
	dims            [maxWindowAxes]int // of X
	channels        int
	inPlane, places int
	x, y            []T
	grid            []G
}

// newGridSample makes a GridSample.
func newGridSample(p *executor.Prep) (executor.Kernel, error) {
	switch {
	case p.DType(0) == graph.Float32 && p.DType(1) == graph.Float32:
		return newGridSampleOf[float32, float32](p)
	case p.DType(0) == graph.Float32 && p.DType(1) == graph.Float64:
		return newGridSampleOf[float32, float64](p)
	case p.DType(0) == graph.Float64 && p.DType(1) == graph.Float32:
		return newGridSampleOf[float64, float32](p)
	case p.DType(0) == graph.Float64 && p.DType(1) == graph.Float64:
		return newGridSampleOf[float64, float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newGridSampleOf[T, G convFloat](p *executor.Prep) (executor.Kernel, error) {
	k := &gridSample[T, G]{mode: p.Node.Str("mode", "linear"), padding: p.Node.Str("padding_mode", "zeros"),
		align: p.Node.Int("align_corners", 0) != 0}
	switch k.mode {
	case "bilinear":
		k.mode = "linear"
	case "bicubic":
		k.mode = "cubic"
	case "linear", "cubic", "nearest":
	default:
		return nil, p.Errorf("attribute mode is %q, wanted linear, cubic or nearest", k.mode)
	}
	if !isOneOf(k.padding, "zeros", "border", "reflection") {
		return nil, p.Errorf("attribute padding_mode is %q, wanted zeros, border or reflection", k.padding)
	}
	return k, nil
}

// Run checks the shapes and samples.
func (k *gridSample[T, G]) Run(c *executor.Ctx) error {
	x, grid := c.In(0), c.In(1)
	n, ch, spatial, err := windowPlanes(x.Shape)
	if err != nil {
		return err
	}
	k.rank = len(spatial)
	if g := grid.Shape; len(g) != len(x.Shape) || g[0] != n || g[len(g)-1] != k.rank {
		return c.Errorf("input 1 (grid) has shape %v; with data of shape %v, wanted rank %d, batch %d and last dim %d",
			g, x.Shape, len(x.Shape), n, k.rank)
	}
	k.shape = append(append(k.shape[:0], n, ch), grid.Shape[1:1+k.rank]...)
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.inPlane = product(spatial)
	if k.inPlane == 0 {
		return c.Errorf("input 0 has shape %v: its planes are empty", x.Shape)
	}
	k.dims = [...]int{1, 1, 1}
	copy(k.dims[maxWindowAxes-k.rank:], spatial)
	k.channels, k.places = ch, product(k.shape[2:])
	k.x, k.y, k.grid = executor.Of[T](x), executor.Of[T](y), executor.Of[G](grid)
	c.Parallel(n*k.places, 1+1<<12/ch, k)
	return nil
}

// gridTaps are the elements of one axis that a place is interpolated from; -1 is an element
// outside, which counts as 0.
type gridTaps struct {
	n      int
	index  [4]int
	weight [4]float64
}

// Range samples at the places lo..hi-1.
func (k *gridSample[T, G]) Range(lo, hi int) {
	var taps [maxWindowAxes]gridTaps
	var offset [64]int
	var weight [64]T
	for p := lo; p < hi; p++ {
		for i := range taps {
			taps[i] = gridTaps{n: 1, weight: [4]float64{1}}
		}
		for i := range k.rank {
			k.tap(&taps[maxWindowAxes-1-i], float64(k.grid[p*k.rank+i]), k.dims[maxWindowAxes-1-i])
		}
		m := combineTaps(&taps, &k.dims, &offset, &weight)
		n, at := p/k.places, p%k.places
		for c := range k.channels {
			x := k.x[(n*k.channels+c)*k.inPlane:][:k.inPlane]
			s := T(0)
			for t, o := range offset[:m] {
				v := x[o] * weight[t]
				s += v
			}
			k.y[(n*k.channels+c)*k.places+at] = s
		}
	}
}

// combineTaps multiplies the taps of the axes and returns how many elements count.
func combineTaps[T convFloat](
	taps *[maxWindowAxes]gridTaps, dims *[maxWindowAxes]int, offset *[64]int, weight *[64]T,
) int {
	m := 0
	for a := range taps[0].n {
		for b := range taps[1].n {
			for c := range taps[2].n {
				i, j, l := taps[0].index[a], taps[1].index[b], taps[2].index[c]
				w := taps[0].weight[a] * taps[1].weight[b] * taps[2].weight[c]
				if i < 0 || j < 0 || l < 0 || w == 0 {
					continue
				}
				offset[m], weight[m] = (i*dims[1]+j)*dims[2]+l, T(w)
				m++
			}
		}
	}
	return m
}

// tap sets the taps of an axis of length n for the coordinate g.
func (k *gridSample[T, G]) tap(t *gridTaps, g float64, n int) {
	least, most := -0.5, float64(n)-0.5
	x := ((g+1)*float64(n) - 1) / 2
	if k.align {
		least, most = 0, float64(n-1)
		x = (g + 1) / 2 * float64(n-1)
	}
	if k.mode == "nearest" {
		x = math.RoundToEven(x)
	}
	if !(x >= least && x <= most) {
		switch k.padding {
		case "border":
			x = k.toBorder(x, n)
		case "reflection":
			x = gridReflect(x, least, most)
		}
	}
	if !(math.Abs(x) < 1<<40) { // far outside, or no number
		*t = gridTaps{n: 1, index: [4]int{-1}, weight: [4]float64{1}}
		return
	}
	base := math.Floor(x)
	r := x - base
	switch k.mode {
	case "nearest":
		t.n, t.weight[0] = 1, 1
	case "linear":
		t.n, t.weight[0], t.weight[1] = 2, 1-r, r
	default:
		base--
		t.n = 4
		cubic := resizeSpec{mode: "cubic", cubicA: -0.75}
		for i := range t.weight {
			t.weight[i] = cubic.weigh(float64(i) - 1 - r)
		}
	}
	for i := range t.n {
		t.index[i] = k.inside(int(base)+i, n, least, most)
	}
}

// toBorder moves a coordinate outside of an axis of length n into it. A cubic keeps it while one of its
// taps is inside: each tap outside is the element at the border.
func (k *gridSample[T, G]) toBorder(x float64, n int) float64 {
	if k.mode == "cubic" {
		return min(max(x, -2), float64(n+1))
	}
	return min(max(x, 0), float64(n-1))
}

// inside maps an index into the axis according to the padding mode, or returns -1.
func (k *gridSample[T, G]) inside(i, n int, least, most float64) int {
	if i >= 0 && i < n {
		return i
	}
	switch k.padding {
	case "border":
		return min(max(i, 0), n-1)
	case "reflection":
		return min(max(int(gridReflect(float64(i), least, most)), 0), n-1)
	}
	return -1
}

// gridReflect mirrors x at both ends until it lies between them.
func gridReflect(x, least, most float64) float64 {
	span := most - least
	if span <= 0 {
		return least
	}
	far, from := least-x, least
	sign := 1.0
	if x > most {
		far, from, sign = x-most, most, -1
	} else if x >= least {
		return x
	}
	turns := math.Floor(far / span)
	rest := far - turns*span
	if math.Mod(turns, 2) != 0 {
		// One more reflection: it comes from the other end.
		return from + sign*(span-rest)
	}
	return from + sign*rest
}
