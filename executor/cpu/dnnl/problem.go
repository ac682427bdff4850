package dnnl

// Direction says which of a convolution's three operands is computed from the other two. With x [N,
// C, in…], w [M, C, kernel…] and y [N, M, out…], place o of y reads elements o*stride - begin +
// k*dilation of x.
type Direction uint8

const (
	Forward         Direction = iota // y from x and w
	BackwardData                     // x, its gradient, from y's gradient and w
	BackwardWeights                  // w, its gradient, from x and y's gradient
)

// Problem is a convolution with one group over two spatial axes. Elements after the last one that a
// place reads are left out, or are padding, as In and Out require.
type Problem struct {
	Direction                                Direction
	N, C, M                                  int
	In, Out, Kernel, Stride, Dilation, Begin [2]int
	X, W, Y                                  Strides
}

// Strides are those of an operand's first two axes in memory, in elements. Spatial axes are dense.
type Strides struct{ Outer, Inner int }

// operand is one of x, w and y.
type operand uint8

const (
	opX operand = iota
	opW
	opY
)

// axis is a direction of a problem's cuts.
type axis uint8

const (
	axisN axis = iota
	axisC
	axisM
)

// axesOf are the first two axes of an operand.
var axesOf = [3][2]axis{opX: {axisN, axisC}, opW: {axisM, axisC}, opY: {axisN, axisM}}

// roles are the inputs and the output of a direction.
var roles = [3]struct {
	in  [2]operand
	out operand
}{Forward: {[2]operand{opX, opW}, opY}, BackwardData: {[2]operand{opY, opW}, opX},
	BackwardWeights: {[2]operand{opX, opY}, opW}}

func (p *Problem) strides(o operand) Strides { return [3]Strides{p.X, p.W, p.Y}[o] }

// spatial are the last two axes of an operand.
func (p *Problem) spatial(o operand) [2]int { return [3][2]int{p.In, p.Kernel, p.Out}[o] }

// plane is the number of elements of one of an operand's planes.
func (p *Problem) plane(o operand) int { s := p.spatial(o); return s[0] * s[1] }

// length is the number of elements from an operand's first to its last.
func (p *Problem) length(o operand) int {
	s, a := p.strides(o), axesOf[o]
	return (p.size(a[0])-1)*s.Outer + (p.size(a[1])-1)*s.Inner + p.plane(o)
}

func (p *Problem) size(a axis) int { return [3]int{p.N, p.C, p.M}[a] }

// end is the padding after the input that Out requires; negative if the places leave elements
// unread.
func (p *Problem) end(i int) int {
	return (p.Out[i]-1)*p.Stride[i] + (p.Kernel[i]-1)*p.Dilation[i] + 1 - p.In[i] - p.Begin[i]
}

// multiplications counts them, padding included.
func (p *Problem) multiplications() int {
	return p.N * p.C * p.M * p.plane(opW) * p.plane(opY)
}
