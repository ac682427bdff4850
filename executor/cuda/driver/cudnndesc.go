package driver

import (
	"fmt"
	"math"
	"unsafe"
)

// convDescriptors are the library's descriptions of a case: kept, as a session runs the same cases
// again and again.
type convDescriptors struct {
	x, w, y, conv uintptr
	order         [3]uintptr // x, w and y as Conv.operands orders them
	math          int        // that conv is set to
}

// describe returns the descriptions of a case.
func (l *cudnn) describe(d *cuda, c *ConvCase) (*convDescriptors, error) {
	if desc := l.cases[*c]; desc != nil {
		return desc, nil
	}
	if err := c.fits(); err != nil {
		return nil, err
	}
	desc := &convDescriptors{math: -1}
	if err := desc.open(l, d, c); err != nil {
		desc.close(l, d)
		return nil, err
	}
	switch c.Kind {
	case ConvData:
		desc.order = [3]uintptr{desc.w, desc.y, desc.x}
	case ConvFilter:
		desc.order = [3]uintptr{desc.x, desc.y, desc.w}
	default:
		desc.order = [3]uintptr{desc.x, desc.w, desc.y}
	}
	l.cases[*c] = desc
	return desc, nil
}

// fits rejects tensors of more elements than the library can count (2^31 - 1,
// cudnnSetTensorNdDescriptor).
func (c *ConvCase) fits() error {
	x, w, y := c.Lens()
	if n := max(x, w, y); n > math.MaxInt32 {
		return &Refused{fmt.Errorf("cuDNN takes tensors of less than 2^31 elements; one of %d is wanted", n)}
	}
	return nil
}

// open makes the descriptions.
func (desc *convDescriptors) open(l *cudnn, d *cuda, c *ConvCase) error {
	for _, one := range []struct {
		to     *uintptr
		create dnnFunction
	}{{&desc.x, dnnCreateTensor}, {&desc.w, dnnCreateFilter}, {&desc.y, dnnCreateTensor}, {&desc.conv, dnnCreateConv}} {
		if err := l.do(d, one.create, d.addr(0)); err != nil {
			return err
		}
		*one.to = uintptr(d.out[0])
	}
	if err := l.setTensor(d, desc.x, c, c.C, &c.In); err != nil {
		return err
	}
	if err := l.setTensor(d, desc.y, c, c.M, &c.Out); err != nil {
		return err
	}
	dims := l.list(0, append([]int{c.M, c.C / max(c.Groups, 1)}, c.Kernel[3-c.Axes:]...))
	if err := l.do(d, dnnSetFilter, desc.w, dnnTypes[c.Elem], formatNCHW, uintptr(2+c.Axes), dims); err != nil {
		return err
	}
	pad, stride, dilation := l.list(0, c.Pad[3-c.Axes:]), l.list(1, c.Stride[3-c.Axes:]),
		l.list(2, c.Dilation[3-c.Axes:])
	if err := l.do(d, dnnSetConv, desc.conv, uintptr(c.Axes), pad, stride, dilation, crossCorrelates,
		dnnSums[c.Elem]); err != nil {
		return err
	}
	return l.do(d, dnnSetGroups, desc.conv, uintptr(c.Groups))
}

// setTensor describes a tensor of N images, in rows without gaps.
func (l *cudnn) setTensor(d *cuda, desc uintptr, c *ConvCase, channels int, plane *[3]int) error {
	dims := append([]int{c.N, channels}, plane[3-c.Axes:]...)
	strides := make([]int, len(dims))
	for i, step := len(dims)-1, 1; i >= 0; i-- {
		strides[i] = step
		step *= dims[i]
	}
	return l.do(d, dnnSetTensor, desc, dnnTypes[c.Elem], uintptr(len(dims)), l.list(0, dims), l.list(1, strides))
}

// list returns the address of numbers as the library reads them.
func (l *cudnn) list(at int, v []int) uintptr {
	for i, n := range v {
		l.lists[at][i] = int32(n)
	}
	return uintptr(unsafe.Pointer(&l.lists[at]))
}

// setMath sets the precision.
func (desc *convDescriptors) setMath(l *cudnn, d *cuda, math int) error {
	if desc.math == math {
		return nil
	}
	if err := l.do(d, dnnSetMath, desc.conv, uintptr(math)); err != nil {
		return err
	}
	desc.math = math
	return nil
}

// workspace returns the bytes that an algorithm needs.
func (desc *convDescriptors) workspace(l *cudnn, d *cuda, kind ConvKind, a ConvAlgo) (int, error) {
	if err := desc.setMath(l, d, a.Math); err != nil {
		return 0, err
	}
	err := l.do(d, dnnWorkspace+dnnFunction(kind), l.handle, desc.order[0], desc.order[1], desc.conv, desc.order[2],
		uintptr(a.Number), d.addr(0))
	return int(d.out[0]), err
}

// close frees the descriptions.
func (desc *convDescriptors) close(l *cudnn, d *cuda) {
	for _, one := range []struct {
		desc    uintptr
		destroy dnnFunction
	}{{desc.x, dnnDestroyTensor}, {desc.w, dnnDestroyFilter}, {desc.y, dnnDestroyTensor}, {desc.conv, dnnDestroyConv}} {
		if one.desc != 0 {
			l.do(d, one.destroy, one.desc)
		}
	}
}
