package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// Window is a kernel at all its places over an input, on three spatial axes; fewer are preceded by
// axes of length 1. On every axis, tap k of place o is element o*Stride - Begin + k*Dilation of the
// input, or padding if there is no such element. Finish is the padding after the input.
type Window struct {
	Rank                                             int // number of spatial axes
	In, Out, Kernel, Stride, Dilation, Begin, Finish [maxWindowAxes]int
}

func (w *slidingWindow) public() Window {
	return Window{w.rank, w.in, w.out, w.kernel, w.stride, w.dilation, w.begin, w.finish}
}

// ConvShape is the geometry of a convolution: X of N images and C channels, M filters, in groups.
type ConvShape struct {
	Window
	N, C, M, Group int
}

// ConvGeometry reads the geometry of convolutions from nodes and shapes, for devices with kernels
// of their own.
type ConvGeometry struct {
	attrs     windowAttrs
	group     int
	transpose *convTransposeKernel[float32]
	// Activation is that of FusedConv, with its parameters.
	Activation  ConvActivation
	Alpha, Beta float64
}

// ConvActivation names the activation that FusedConv applies to its result.
type ConvActivation = convActivationKind

// NewConvGeometry reads the attributes of Conv, FusedConv and ConvGrad.
func NewConvGeometry(p *executor.Prep) (*ConvGeometry, error) {
	attrs, group, err := newConvAttrs(p)
	if err != nil {
		return nil, err
	}
	act, err := newConvActivation(p)
	if err != nil {
		return nil, err
	}
	return &ConvGeometry{attrs: attrs, group: group, Activation: act.kind, Alpha: act.alpha, Beta: act.beta}, nil
}

// NewConvTransposeGeometry reads the attributes of ConvTranspose.
func NewConvTransposeGeometry(p *executor.Prep) (*ConvGeometry, error) {
	k, err := newConvTransposeKernel[float32](p)
	if err != nil {
		return nil, err
	}
	return &ConvGeometry{transpose: k.(*convTransposeKernel[float32])}, nil
}

// Shape checks the shapes of X and W against each other. For ConvTranspose it returns the
// convolution whose transpose this is: from C channels, those of Y, to M filters, the channels of
// X.
func (g *ConvGeometry) Shape(x, w []int) (ConvShape, error) {
	var p convPlan
	var err error
	if g.transpose != nil {
		p, err = g.transpose.plan(x, w)
	} else {
		p, err = newConvPlan(&g.attrs, g.group, x, w, 4)
	}
	return ConvShape{p.win.public(), p.n, p.c, p.m, p.group}, err
}

// PoolGeometry reads the geometry of pools from nodes and shapes.
type PoolGeometry struct{ core poolCore }

// NewPoolGeometry reads the attributes of a pool with a window.
func NewPoolGeometry(p *executor.Prep) (*PoolGeometry, error) {
	core, err := newPoolCore(p)
	return &PoolGeometry{core}, err
}

// Shape returns the window over X [N, C, d…], and the shape of Y, which holds until the next call.
func (g *PoolGeometry) Shape(x *executor.Tensor) (Window, []int, error) {
	err := g.core.begin(x)
	return g.core.win.public(), g.core.shape, err
}

// BlockGeometry reads the geometry of Col2Im, whose planes and blocks are inputs.
type BlockGeometry struct{ attrs windowAttrs }

// NewBlockGeometry reads the attributes.
func NewBlockGeometry(p *executor.Prep) (*BlockGeometry, error) {
	attrs, err := newWindowAttrs(p)
	attrs.kernel = nil
	return &BlockGeometry{attrs}, err
}

// Over returns the window of blocks over images.
func (g *BlockGeometry) Over(image, block []int) (Window, error) {
	w, err := g.attrs.onto(image, block)
	if err == nil {
		err = g.attrs.slide(&w)
	}
	return w.public(), err
}

// ResizeGeometry computes the tables of Resize, Upsample and ResizeGrad.
type ResizeGeometry struct{ m resizeMap }

// NewResizeGeometry reads the attributes.
func NewResizeGeometry(p *executor.Prep) (*ResizeGeometry, error) {
	spec, err := newResizeSpec(p)
	return &ResizeGeometry{resizeMap{spec: spec}}, err
}

// Antialias reports whether filters widen where an axis shrinks.
func (g *ResizeGeometry) Antialias() bool { return g.m.spec.antialias && g.m.spec.mode != "nearest" }

// Nearest reports whether elements are copied without computation.
func (g *ResizeGeometry) Nearest() bool { return g.m.spec.mode == "nearest" }

// Extrapolation is the value of elements from outside the input.
func (g *ResizeGeometry) Extrapolation() float32 { return g.m.spec.extrapolation }

// ResizeAxis says how an axis is resized: element o of the output is the sum of Weight[o*Taps+t]
// times element Index[o*Taps+t] of the input, or the extrapolation value if Outside[o] is set.
// Weight is empty if all weights are 1.
type ResizeAxis struct {
	In, Out, Taps int
	Same          bool // the output equals the input; the tables are empty
	Index         []int
	Weight        []float64
	Outside       []bool
}

// Plan computes the tables for an input of a shape, and returns the shape of the output, which
// holds until the next call. stated is that shape if it is known beforehand (ResizeGrad), or nil.
func (g *ResizeGeometry) Plan(c *executor.Ctx, shape, stated []int) ([]int, error) {
	err := g.m.plan(c, shape, stated)
	return g.m.shape, err
}

// Axis returns the tables of an axis.
func (g *ResizeGeometry) Axis(i int) ResizeAxis {
	a := &g.m.axes[i]
	if a.same {
		return ResizeAxis{In: a.in, Out: a.out, Same: true}
	}
	return ResizeAxis{In: a.in, Out: a.out, Taps: a.taps, Index: a.index, Weight: a.weight, Outside: a.outside}
}

// Fill returns the extrapolation value as an element of a type, in the low bytes.
func (g *ResizeGeometry) Fill(d graph.DType) uint64 {
	var one [1]uint64
	encodeNumber(executor.Memory(one[:])[:d.Bits()/8], d, float64(g.m.spec.extrapolation))
	return one[0]
}
