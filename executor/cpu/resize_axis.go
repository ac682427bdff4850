package cpu

import (
	"fmt"
	"math"
)

// original returns the place in the input of place x in the output, both counted from the centre
// of element 0. It is computed in float32, as runtimes do: which element is nearest
// depends on it.
func (r *resizeSpec) original(a *resizeAxis, x float32) float32 {
	in, out := float32(a.in), float32(a.out)
	switch r.coordinates {
	case "half_pixel":
		return (x+0.5)/a.scale - 0.5
	case "half_pixel_symmetric":
		// A scaled length is rounded down: the remainder is shared between both ends.
		adjust := out / a.length
		centre := in / 2
		offset := float32(centre * (1 - adjust))
		return offset + (x+0.5)/a.scale - 0.5
	case "pytorch_half_pixel":
		if a.out > 1 {
			return (x+0.5)/a.scale - 0.5
		}
		return 0
	case "tf_half_pixel_for_nn":
		return (x + 0.5) / a.scale
	case "align_corners":
		if a.out == 1 {
			return 0
		}
		return float32(x*(in-1)) / (a.length - 1)
	case "tf_crop_and_resize":
		if a.out > 1 {
			first := float32(a.start * (in - 1))
			return first + float32(x*(a.end-a.start)*(in-1))/(out-1)
		}
		return 0.5 * (a.start + a.end) * (in - 1)
	}
	return x / a.scale // asymmetric
}

// round returns the element nearest to x.
func (r *resizeSpec) round(x float32, scale float32) int {
	f := float64(x)
	switch r.nearest {
	case "round_prefer_floor":
		return int(math.Ceil(f - 0.5))
	case "round_prefer_ceil":
		return int(math.Floor(f + 0.5))
	case "ceil":
		return int(math.Ceil(f))
	case "simple": // before version 11
		if scale < 1 {
			return int(math.Ceil(f))
		}
	}
	return int(math.Floor(f))
}

// resizeMaxTaps bounds the width of filters.
const resizeMaxTaps = 1 << 26

// fill computes the tables of an axis.
func (r *resizeSpec) fill(a *resizeAxis) error {
	from, taps := 0, 1 // taps are at floor(x) + from…
	stretch := 1.0     // scale of the filter
	if r.antialias && a.scale < 1 {
		stretch = float64(a.scale)
	}
	switch r.mode {
	case "linear":
		from = int(math.Floor(-1/stretch)) + 1
		taps = 2 - 2*from
	case "cubic":
		from = int(math.Floor(-2/stretch)) + 1
		taps = 2 - 2*from
	}
	if taps < 1 || taps > resizeMaxTaps {
		return fmt.Errorf("scale %g makes a filter that is too wide", a.scale)
	}
	a.taps, a.crops = taps, false
	a.index, a.weight, a.outside = a.index[:0], a.weight[:0], a.outside[:0]
	crop := r.coordinates == "tf_crop_and_resize"
	for o := range a.out {
		x := r.original(a, float32(o))
		if x != x || math.Abs(float64(x)) > 1<<40 {
			return fmt.Errorf("element %d lies at %g of the input", o, x)
		}
		out := crop && (x < 0 || x > float32(a.in-1))
		a.outside = append(a.outside, out)
		a.crops = a.crops || out
		if r.mode == "nearest" {
			a.index = append(a.index, min(max(r.round(x, a.scale), 0), a.in-1))
			continue
		}
		base := int(math.Floor(float64(x)))
		r.filter(a, base+from, taps, float64(x), stretch)
	}
	return nil
}

// filter appends the taps of one element: weights of the elements first, first+1… of the input,
// where an element outside counts as the nearest one inside, or, with exclude_outside, not at all.
func (r *resizeSpec) filter(a *resizeAxis, first, taps int, x, stretch float64) {
	at := len(a.weight)
	sum, rest := 0.0, 0.0
	for i := first; i < first+taps; i++ {
		w := r.weigh((float64(i) - x) * stretch)
		sum += w
		if i < 0 || i >= a.in {
			if r.exclude {
				w = 0
			}
		}
		rest += w
		a.index = append(a.index, min(max(i, 0), a.in-1))
		a.weight = append(a.weight, w)
	}
	if r.exclude {
		sum = rest
	} else if stretch == 1 {
		return
	}
	for i := at; i < len(a.weight); i++ {
		if a.weight[i] != 0 {
			a.weight[i] /= sum
		}
	}
}

// weigh is the filter: a triangle, or the cubic of R. Keys with parameter cubicA.
func (r *resizeSpec) weigh(d float64) float64 {
	d = math.Abs(d)
	if r.mode == "linear" {
		return max(0, 1-d)
	}
	a := float64(r.cubicA)
	switch {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	return 0
}
