package driver

import "fmt"

// ConvKind says which of a convolution's three tensors is computed of the other two.
type ConvKind uint8

const (
	ConvForward ConvKind = iota // Y of X and W
	ConvData                    // the gradient of X, in X's place, of W and that of Y
	ConvFilter                  // the gradient of W, in W's place, of X and that of Y
)

// ConvCase is the geometry and types of a convolution. X is [N, C, In…], W is [M, C/Groups,
// Kernel…] and Y is [N, M, Out…], each in rows without gaps. Tap k of place o is element o*Stride -
// Pad + k*Dilation of the input, and 0 outside of it. The last Axes entries of the lists count: 2,
// or 3 for volumes. An axis that does not count has one element, one place and one tap.
type ConvCase struct {
	Kind                                   ConvKind
	Elem                                   Elem // sums of half types are float32
	TF32                                   bool // float32 operands may be rounded to 10 bits
	N, C, M, Groups                        int
	Axes                                   int
	In, Out, Kernel, Pad, Stride, Dilation [3]int
}

// Lens returns the number of elements of X, W and Y.
func (c *ConvCase) Lens() (x, w, y int) {
	x, w, y = c.N*c.C, c.M*(c.C/max(c.Groups, 1)), c.N*c.M
	for i := 3 - c.Axes; i < 3; i++ {
		x, w, y = x*c.In[i], w*c.Kernel[i], y*c.Out[i]
	}
	return x, w, y
}

// Places returns how many places the window has along an axis: Out must be equal to it.
func (c *ConvCase) Places(axis int) int {
	return 1 + (c.In[axis]+2*c.Pad[axis]-(c.Kernel[axis]-1)*c.Dilation[axis]-1)/c.Stride[axis]
}

// Conv is a convolution to be run.
type Conv struct {
	ConvCase
	X, W, Y   []byte
	Algo      ConvAlgo
	Workspace []byte // of the device: Algo.Workspace bytes, or more
}

// check checks the lengths of a convolution's operands.
func (c *Conv) check() error {
	x, w, y := c.Lens()
	size := c.Elem.Size()
	if len(c.X) != x*size || len(c.W) != w*size || len(c.Y) != y*size {
		return fmt.Errorf("a convolution of operands of %d, %d and %d bytes is given %d, %d and %d",
			x*size, w*size, y*size, len(c.X), len(c.W), len(c.Y))
	}
	return nil
}

// CheckRun checks the lengths of the operands and of the workspace before a run.
func (c *Conv) CheckRun() error {
	if len(c.Workspace) < c.Algo.Workspace {
		return fmt.Errorf("a convolution by algorithm %d needs a workspace of %d bytes and is given %d",
			c.Algo.Number, c.Algo.Workspace, len(c.Workspace))
	}
	return c.check()
}

// ConvAlgo is a library algorithm for a convolution.
type ConvAlgo struct {
	Number, Math  int // as the library numbers algorithms and precisions
	Workspace     int // bytes
	Deterministic bool
	Millis        float64 // the measured time; 0 without a run
}

// ConvSearch is how a library's algorithms for a convolution are found.
type ConvSearch uint8

const (
	SearchHeuristic  ConvSearch = iota // the library's guess, which knows the device
	SearchExhaustive                   // all are run and timed
	SearchDefault                      // the one that the library's documentation recommends for any case
)

// Refused means that a library is available, but does not support the request.
type Refused struct{ Err error }

func (e *Refused) Error() string { return e.Err.Error() }
func (e *Refused) Unwrap() error { return e.Err }
