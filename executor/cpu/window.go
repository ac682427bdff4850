package cpu

import (
	"fmt"

	"memopt/executor"
)

// maxWindowAxes is the most spatial axes that convolutions and pools take.
const maxWindowAxes = 3

// windowBound bounds strides, dilations, pads and kernels: products of two stay inside int.
const windowBound = 1 << 31

// windowAttrs are the attributes that convolutions and pools share. Lists are nil if the node
// leaves them out.
type windowAttrs struct {
	kernel, strides, dilations, pads []int
	autoPad                          string
	ceil                             bool
}

// newWindowAttrs reads and checks the attributes, as far as that goes without shapes.
func newWindowAttrs(p *executor.Prep) (a windowAttrs, err error) {
	lists := []struct {
		name  string
		least int
		into  *[]int
	}{{"kernel_shape", 1, &a.kernel}, {"strides", 1, &a.strides}, {"dilations", 1, &a.dilations},
		{"pads", -windowBound, &a.pads}}
	for _, l := range lists {
		if *l.into, err = windowInts(p, l.name, l.least); err != nil {
			return a, err
		}
	}
	a.ceil = p.Node.Int("ceil_mode", 0) != 0
	a.autoPad = p.Node.Str("auto_pad", "NOTSET")
	switch a.autoPad {
	case "":
		a.autoPad = "NOTSET"
	case "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER":
	default:
		return a, p.Errorf("attribute auto_pad is %q, wanted NOTSET, SAME_UPPER, SAME_LOWER or VALID", a.autoPad)
	}
	if a.autoPad != "NOTSET" {
		a.pads = nil
	}
	return a, nil
}

// windowInts reads a list of integers from least to windowBound.
func windowInts(p *executor.Prep, name string, least int) ([]int, error) {
	var out []int
	for _, v := range p.Node.IntList(name, nil) {
		if v < int64(least) || v > windowBound {
			return nil, p.Errorf("attribute %s has entry %d, wanted %d to %d", name, v, least, windowBound)
		}
		out = append(out, int(v))
	}
	return out, nil
}

// slidingWindow is a kernel at all its places over an input. Fewer than three spatial axes are
// preceded by axes of length 1. On every axis, tap k of place o is element
//
//	o*stride - begin + k*dilation
//
// of the input, or padding if there is no such element.
type slidingWindow struct {
	rank                                             int
	in, out, kernel, stride, dilation, begin, finish [maxWindowAxes]int
}

// onto makes the window over an input of the given spatial dims. kernel overrides the attribute
// kernel_shape, which must then be equal or left out. out is not set yet.
func (a *windowAttrs) onto(spatial, kernel []int) (w slidingWindow, err error) {
	n := len(spatial)
	if n < 1 || n > maxWindowAxes {
		return w, fmt.Errorf("input 0 has %d spatial axes, wanted 1 to %d", n, maxWindowAxes)
	}
	if kernel == nil {
		kernel = a.kernel
	} else if a.kernel != nil && !sameInts(a.kernel, kernel) {
		return w, fmt.Errorf("attribute kernel_shape is %v, the weights have %v",
			a.kernel, append([]int(nil), kernel...))
	}
	w = slidingWindow{rank: n, stride: [...]int{1, 1, 1}, dilation: [...]int{1, 1, 1},
		in: [...]int{1, 1, 1}, out: [...]int{1, 1, 1}, kernel: [...]int{1, 1, 1}}
	off := maxWindowAxes - n
	copy(w.in[off:], spatial)
	if len(kernel) != n {
		return w, fmt.Errorf("the kernel has %d axes, wanted %d", len(kernel), n)
	}
	copy(w.kernel[off:], kernel)
	for i, k := range kernel {
		if k < 1 {
			return w, fmt.Errorf("the kernel has size %d on spatial axis %d, wanted at least 1", k, i)
		}
	}
	if err := windowList("strides", a.strides, w.stride[off:]); err != nil {
		return w, err
	}
	if err := windowList("dilations", a.dilations, w.dilation[off:]); err != nil {
		return w, err
	}
	if a.pads == nil {
		return w, nil
	}
	if len(a.pads) != 2*n {
		return w, fmt.Errorf("attribute pads has %d entries, wanted %d", len(a.pads), 2*n)
	}
	copy(w.begin[off:], a.pads[:n])
	copy(w.finish[off:], a.pads[n:])
	return w, nil
}

func windowList(name string, got, into []int) error {
	if got == nil {
		return nil
	}
	if len(got) != len(into) {
		return fmt.Errorf("attribute %s has %d entries, wanted %d", name, len(got), len(into))
	}
	copy(into, got)
	return nil
}

func sameInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// extent is the span of the dilated kernel on axis i.
func (w *slidingWindow) extent(i int) int { return (w.kernel[i]-1)*w.dilation[i] + 1 }

// slide sets the number of places on every axis, and with auto_pad the pads:
//
//	explicit padding   floor((in + begin + end - extent) / stride) + 1
//	with ceil_mode     the same with ceil, less a last window that would start in the end padding
//	SAME_*             ceil(in / stride)
func (a *windowAttrs) slide(w *slidingWindow) error {
	for i := maxWindowAxes - w.rank; i < maxWindowAxes; i++ {
		if a.autoPad == "SAME_UPPER" || a.autoPad == "SAME_LOWER" {
			w.out[i] = (w.in[i] + w.stride[i] - 1) / w.stride[i]
			w.same(i, max(0, (w.out[i]-1)*w.stride[i]+w.extent(i)-w.in[i]), a.autoPad)
			continue
		}
		room := w.in[i] + w.begin[i] + w.finish[i] - w.extent(i)
		if room < 0 {
			return fmt.Errorf("spatial axis %d of input 0 has size %d, which with pads %d and %d is smaller than "+
				"the kernel's extent %d",
				i-maxWindowAxes+w.rank, w.in[i], w.begin[i], w.finish[i], w.extent(i))
		}
		w.out[i] = room/w.stride[i] + 1
		if a.ceil && a.autoPad == "NOTSET" {
			w.out[i] = (room+w.stride[i]-1)/w.stride[i] + 1
			if (w.out[i]-1)*w.stride[i] >= w.in[i]+w.begin[i] {
				w.out[i]--
			}
		}
		if w.out[i] < 1 {
			return fmt.Errorf("spatial axis %d of input 0 has size %d and pads %d and %d: no window begins inside it",
				i-maxWindowAxes+w.rank, w.in[i], w.begin[i], w.finish[i])
		}
	}
	return nil
}

// same shares the padding of axis i between both ends; an odd element goes to the end that the
// mode names.
func (w *slidingWindow) same(i, total int, mode string) {
	w.begin[i] = total / 2
	if mode == "SAME_LOWER" {
		w.begin[i] = total - total/2
	}
	w.finish[i] = total - w.begin[i]
}

// windowVolume multiplies the three axes.
func windowVolume(a [maxWindowAxes]int) int { return a[0] * a[1] * a[2] }

// taps returns the taps lo..hi-1 of the window at place o of axis i that lie in the input, and the
// element under tap 0, which may be outside.
func (w *slidingWindow) taps(i, o int) (start, lo, hi int) {
	start = o*w.stride[i] - w.begin[i]
	d := w.dilation[i]
	if start < 0 {
		lo = (d - 1 - start) / d
	}
	hi = w.kernel[i]
	if left := w.in[i] - start; left <= 0 {
		hi = 0
	} else if (hi-1)*d >= left {
		hi = (left-1)/d + 1
	}
	return start, min(lo, hi), hi
}

// places returns the range lo..hi-1 of places of axis i whose tap k lies in the input.
func (w *slidingWindow) places(i, k int) (lo, hi int) {
	at := k*w.dilation[i] - w.begin[i] // element at place 0
	s := w.stride[i]
	if at < 0 {
		lo = (s - 1 - at) / s
	}
	if left := w.in[i] - at; left > 0 {
		hi = min((left-1)/s+1, w.out[i])
	}
	return min(lo, hi), hi
}

// windowPlanes splits the shape [N, C, d…] of input 0.
func windowPlanes(x []int) (n, c int, spatial []int, err error) {
	if len(x) < 3 || len(x) > 2+maxWindowAxes {
		return 0, 0, nil, fmt.Errorf("input 0 has rank %d, wanted batch, channel and 1 to %d spatial axes",
			len(x), maxWindowAxes)
	}
	return x[0], x[1], x[2:], nil
}
