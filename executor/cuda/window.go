package cuda

import (
	"fmt"

	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
)

// window is a kernel at all its places over a plane, as kernels/window.h has it.
type window struct {
	cpu.Window
	taps, inPlane, outPlane int
}

// newWindow checks that the numbers of a window fit the kernels.
func newWindow(w cpu.Window) (window, error) {
	const bound = 1 << 31
	k := window{w, 1, 1, 1}
	for i := range w.In {
		if w.Out[i] == 1 {
			k.Stride[i] = 1 // the stride has no effect
		}
		if w.Kernel[i] == 1 {
			k.Dilation[i] = 1
		}
		k.taps, k.inPlane, k.outPlane = k.taps*w.Kernel[i], k.inPlane*w.In[i], k.outPlane*w.Out[i]
		reach := w.Out[i]*k.Stride[i] + w.Kernel[i]*k.Dilation[i] + max(w.Begin[i], -w.Begin[i]) + w.In[i]
		if reach >= bound || k.taps >= bound || k.inPlane >= bound || k.outPlane >= bound {
			return k, fmt.Errorf("a window of %v over planes %v, strides %v and dilations %v is larger than the "+
				"CUDA kernels take (2^31)",
				w.Kernel, w.In, w.Stride, w.Dilation)
		}
	}
	return k, nil
}

// point reports whether every place of the window is one element of the input, in order.
func (w *window) point() bool {
	return w.taps == 1 && w.In == w.Out && w.Begin == [3]int{} && w.Stride == [3]int{1, 1, 1}
}

// pack packs a window.
func (w *window) pack(a *driver.Args) {
	for _, list := range [...]*[3]int{&w.In, &w.Out, &w.Kernel, &w.Stride, &w.Dilation, &w.Begin} {
		for _, v := range list {
			a.Int32(int32(v))
		}
	}
	for _, list := range [...]*[3]int{&w.In, &w.Out, &w.Kernel} {
		a.Divider(max(list[2], 1)).Divider(max(list[1], 1))
	}
	for _, v := range w.Stride {
		a.Divider(v)
	}
}
