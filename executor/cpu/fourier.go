package cpu

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// fourierLine transforms one line of numbers: complex ones are pairs of real and imaginary parts. A line that
// is shorter than the transform has zeros behind it, of a longer one the rest is left out. Sums are those of
// float64.
type fourierLine struct {
	n                 int // numbers in the transform
	inverse, onesided bool

	mu   sync.Mutex
	free []*fourierWork // of earlier lines
}

// outs returns how many numbers come out.
func (l *fourierLine) outs() int {
	if l.onesided && !l.inverse {
		return l.n/2 + 1
	}
	return l.n
}

// fourierWork is the scratch memory of a transform.
type fourierWork struct {
	fft  *fourier.CmplxFFT
	line []complex128
}

// work returns the scratch memory of one goroutine, which it gives back by done.
func (l *fourierLine) work() *fourierWork {
	l.mu.Lock()
	defer l.mu.Unlock()
	for last := len(l.free) - 1; last >= 0; last-- {
		w := l.free[last]
		if l.free = l.free[:last]; len(w.line) == l.n {
			return w
		}
	}
	return &fourierWork{fourier.NewCmplxFFT(l.n), make([]complex128, l.n)}
}

func (l *fourierLine) done(w *fourierWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, w)
}

// transform transforms the elements of the line. read numbers have been set.
func (l *fourierLine) transform(w *fourierWork, read int) {
	clear(w.line[read:])
	if !l.inverse {
		w.fft.Coefficients(w.line, w.line)
		return
	}
	if l.onesided { // the other frequencies are conjugates; those of 0 and of the middle are real
		for k := 1; k < l.n-k; k++ {
			w.line[l.n-k] = complex(real(w.line[k]), -imag(w.line[k]))
		}
		w.line[0] = complex(real(w.line[0]), 0)
		if l.n%2 == 0 {
			w.line[l.n/2] = complex(real(w.line[l.n/2]), 0)
		}
	}
	w.fft.Sequence(w.line, w.line)
	for k, v := range w.line {
		w.line[k] = complex(real(v)/float64(l.n), imag(v)/float64(l.n))
	}
}

// dftKernel is DFT: the transform along an axis of X, whose last axis holds one number, or real and imaginary
// parts. y[k] = Σ x[j]·e^(-2πi·jk/n), and the inverse Σ x[k]·e^(2πi·jk/n)/n. A one-sided transform gives the
// first n/2+1 frequencies, and its inverse, a real signal, takes them.
//
// https://onnx.ai/onnx/operators/onnx__DFT.html
type dftKernel[T convFloat] struct {
	fourierLine
	version int
	attr    int64

	x, y                 []T
	shape                []int
	in, inner            int // X is [outer, in, inner, parts]
	parts, outParts, cut int // cut: numbers of a line that are read
}

func newDFT(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newDFTOf[float32](p), nil
	case graph.Float64:
		return newDFTOf[float64](p), nil
	}
	return nil, unsupportedTypes(p)
}

func newDFTOf[T convFloat](p *executor.Prep) executor.Kernel {
	k := &dftKernel[T]{version: p.Version, attr: p.Node.Int("axis", 1)}
	k.inverse, k.onesided = p.Node.Int("inverse", 0) != 0, p.Node.Int("onesided", 0) != 0
	return k
}

// Run transforms.
func (k *dftKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	shape, err := k.outShape(c)
	if err != nil {
		return err
	}
	y := c.Out(0, shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.x, k.y = executor.Of[T](x), executor.Of[T](y)
	k.cut = min(k.in, k.n)
	if k.inverse && k.onesided {
		k.cut = min(k.in, k.n/2+1)
	}
	c.Parallel(x.Len()/max(1, k.in*k.parts), 1+1<<12/k.n, k)
	return nil
}

// outShape checks the operands and returns the shape of the output.
func (k *dftKernel[T]) outShape(c *executor.Ctx) ([]int, error) {
	shape := append(k.shape[:0], c.In(0).Shape...)
	k.shape = shape
	rank := len(shape)
	if rank < 2 || shape[rank-1] != 1 && shape[rank-1] != 2 {
		return nil, c.Errorf("input 0 has shape %v, wanted an axis to transform and a last dim of 1 for real or 2 for "+
			"complex numbers", shape)
	}
	at := k.attr
	if k.version >= 20 {
		at = -2
		if c.In(2) != nil {
			var err error
			if at, err = operand.Scalar(c, 2, "the axis"); err != nil {
				return nil, err
			}
		}
	}
	axis, err := operand.Axis(c, at, rank)
	if err != nil {
		return nil, err
	}
	if axis == rank-1 {
		return nil, c.Errorf("the axis is %d, the last one, which holds real and imaginary parts", at)
	}
	k.in, k.inner, k.parts, k.outParts = shape[axis], product(shape[axis+1:rank-1]), shape[rank-1], 2
	if k.n, err = k.length(c); err != nil {
		return nil, err
	}
	switch {
	case k.onesided && !k.inverse && k.parts == 2:
		return nil, c.Errorf("input 0 is complex, and only a real one has a one-sided transform")
	case k.onesided && k.inverse && k.parts == 1:
		return nil, c.Errorf("input 0 is real, and the inverse of a one-sided transform is that of a complex input")
	case k.onesided && k.inverse:
		k.outParts = 1
	}
	shape[axis], shape[rank-1] = k.outs(), k.outParts
	return shape, nil
}

// length is the number of elements in the transform.
func (k *dftKernel[T]) length(c *executor.Ctx) (int, error) {
	n := int64(k.in)
	if k.inverse && k.onesided {
		n = 2 * (n - 1)
	}
	if c.In(1) != nil {
		var err error
		if n, err = operand.Scalar(c, 1, "the length"); err != nil {
			return 0, err
		}
	}
	if n < 1 || n > 1<<40 {
		return 0, c.Errorf("the length of the transform is %d, wanted 1 or more", n)
	}
	return int(n), nil
}

// Range transforms lines lo..hi-1.
func (k *dftKernel[T]) Range(lo, hi int) {
	w, outs := k.work(), k.outs()
	defer k.done(w)
	for ; lo < hi; lo++ {
		outer, inner := lo/k.inner, lo%k.inner
		from := k.x[(outer*k.in*k.inner+inner)*k.parts:]
		for i := range k.cut {
			v := from[i*k.inner*k.parts:]
			w.line[i] = complex(float64(v[0]), 0)
			if k.parts == 2 {
				w.line[i] = complex(float64(v[0]), float64(v[1]))
			}
		}
		k.transform(w, k.cut)
		to := k.y[(outer*outs*k.inner+inner)*k.outParts:]
		for i, v := range w.line[:outs] {
			at := i * k.inner * k.outParts
			to[at] = T(real(v))
			if k.outParts == 2 {
				to[at+1] = T(imag(v))
			}
		}
	}
}

// stftKernel is STFT: the transforms of frames of a signal, [batch, length, 1 or 2] or [batch, length], each
// times a window.
//
// https://onnx.ai/onnx/operators/onnx__STFT.html
type stftKernel[T convFloat] struct {
	fourierLine
	x, window, y  []T // no window: ones
	parts, signal int
	frames, step  int
}

func newSTFT(p *executor.Prep) (executor.Kernel, error) {
	onesided := p.Node.Int("onesided", 1) != 0
	switch {
	case p.Has(2) && p.DType(2) != p.DType(0):
		return nil, p.Errorf("the window has type %v, the signal %v", p.DType(2), p.DType(0))
	case p.DType(0) == graph.Float32:
		return &stftKernel[float32]{fourierLine: fourierLine{onesided: onesided}}, nil
	case p.DType(0) == graph.Float64:
		return &stftKernel[float64]{fourierLine: fourierLine{onesided: onesided}}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run transforms.
func (k *stftKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if rank := len(x.Shape); rank != 2 && (rank != 3 || x.Shape[2] != 1 && x.Shape[2] != 2) {
		return c.Errorf("input 0 has shape %v, wanted [batch, length, 1] for real and [batch, length, 2] for complex "+
			"numbers", x.Shape)
	}
	k.signal, k.parts = x.Shape[1], product(x.Shape[2:])
	if k.parts == 2 && k.onesided {
		return c.Errorf("input 0 is complex, and only a real one has a one-sided transform: set onesided to 0")
	}
	if err := k.frame(c); err != nil {
		return err
	}
	k.frames = (k.signal-k.n)/k.step + 1
	y := c.Out(0, x.Shape[0], k.frames, k.outs(), 2)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.x, k.y, k.window = executor.Of[T](x), executor.Of[T](y), nil
	if w := c.In(2); w != nil {
		k.window = executor.Of[T](w)
	}
	c.Parallel(x.Shape[0]*k.frames, 1+1<<12/k.n, k)
	return nil
}

// frame reads the step and the length of frames.
func (k *stftKernel[T]) frame(c *executor.Ctx) error {
	step, err := operand.Scalar(c, 1, "the step between frames")
	if err != nil {
		return err
	}
	n := int64(k.signal)
	w := c.In(2)
	if w != nil {
		if len(w.Shape) != 1 {
			return c.Errorf("the window has shape %v, wanted a vector", w.Shape)
		}
		n = int64(w.Len())
	}
	if c.In(3) != nil {
		if n, err = operand.Scalar(c, 3, "the length of a frame"); err != nil {
			return err
		}
	}
	switch {
	case step < 1:
		return c.Errorf("the step between frames is %d, wanted 1 or more", step)
	case w != nil && n != int64(w.Len()):
		return c.Errorf("the length of a frame is %d and the window has %d elements", n, w.Len())
	case n < 1 || n > int64(k.signal):
		return c.Errorf("the length of a frame is %d, wanted one from 1 to %d, the length of the signal", n, k.signal)
	}
	k.n, k.step = int(n), int(min(step, int64(k.signal)))
	return nil
}

// Range transforms frames lo..hi-1.
func (k *stftKernel[T]) Range(lo, hi int) {
	w, outs := k.work(), k.outs()
	defer k.done(w)
	for ; lo < hi; lo++ {
		from := k.x[(lo/k.frames*k.signal+lo%k.frames*k.step)*k.parts:]
		for i := range k.n {
			factor := T(1)
			if k.window != nil {
				factor = k.window[i]
			}
			w.line[i] = complex(float64(from[i*k.parts]*factor), 0)
			if k.parts == 2 {
				w.line[i] = complex(real(w.line[i]), float64(from[2*i+1]*factor))
			}
		}
		k.transform(w, k.n)
		for i, v := range w.line[:outs] {
			k.y[(lo*outs+i)*2], k.y[(lo*outs+i)*2+1] = T(real(v)), T(imag(v))
		}
	}
}

// melWeightMatrix is MelWeightMatrix: column b is the triangle of band b over the frequencies of a one-sided
// transform. The corners of the triangles are at equal distances on the mel scale, 2595·log10(1 + f/700),
// rounded down to frequencies of the transform.
//
// https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html
type melWeightMatrix struct {
	dtype graph.DType
	at    []int     // the corners
	row   []float64 // one frequency
}

func newMelWeightMatrix(p *executor.Prep) (executor.Kernel, error) {
	for i := range 3 {
		if d := p.DType(i); d != graph.Int32 && d != graph.Int64 {
			return nil, p.Errorf("input %d has type %v, wanted int32 or int64", i, d)
		}
	}
	if !isReal(p.DType(3)) || p.DType(4) != p.DType(3) {
		return nil, unsupportedTypes(p)
	}
	k := &melWeightMatrix{dtype: p.Out[0]}
	if !canStoreReals(k.dtype) || k.dtype == graph.Bool {
		return nil, p.Unsupported("no kernel for output type %v", k.dtype)
	}
	return k, nil
}

// Run computes the matrix.
func (k *melWeightMatrix) Run(c *executor.Ctx) error {
	var ints [3]int
	for i, name := range []string{"the number of bands", "the length of the transform", "the sample rate"} {
		v, err := operand.Scalar(c, i, name)
		if err != nil {
			return err
		}
		if v < 0 || v > 1<<31 || i == 2 && v == 0 {
			return c.Errorf("input %d, %s, is %d, wanted a number from 1 to 2^31", i, name, v)
		}
		ints[i] = int(v)
	}
	bands, length, rate := ints[0], ints[1], ints[2]
	y := c.Out(0, length/2+1, bands)
	if y == nil || y.Len() == 0 {
		return nil
	}
	corners, err := k.corners(c, bands, length, rate)
	if err != nil {
		return err
	}
	row := slices.Grow(k.row[:0], bands)[:bands]
	k.row = row
	for f := range length/2 + 1 {
		for b := range row {
			row[b] = triangle(f, corners[b], corners[b+1], corners[b+2])
		}
		storeReals(k.dtype, y.Data, f*bands, row)
	}
	return nil
}

// corners are the frequencies where triangles begin, have their peaks and end.
func (k *melWeightMatrix) corners(c *executor.Ctx, bands, length, rate int) ([]int, error) {
	var edges [2]float64
	for i := range edges {
		v, ok := realScalar(c.In(3 + i))
		if edges[i] = 2595 * math.Log10(1+v/700); !ok || !(v >= 0) || math.IsInf(v, 0) {
			return nil, c.Errorf("input %d, an edge of the bands, is %v, wanted one frequency", 3+i, c.In(3+i))
		}
	}
	k.at = slices.Grow(k.at[:0], bands+2)[:bands+2]
	corners, step := k.at, (edges[1]-edges[0])/float64(bands+2)
	for i := range corners {
		hertz := 700 * (math.Pow(10, (float64(i)*step+edges[0])/2595) - 1)
		at := math.Floor(float64(length+1) * hertz / float64(rate))
		if !(at >= 0 && at <= float64(length/2)) {
			return nil, c.Errorf("a corner of the bands is at %g hertz, wanted one up to half the sample rate, %d",
				hertz, rate)
		}
		corners[i] = int(at)
	}
	return corners, nil
}

// triangle is the weight of frequency f in a band.
func triangle(f, left, peak, right int) float64 {
	switch {
	case f >= peak && f < right:
		return float64(right-f) / float64(right-peak)
	case f == peak:
		return 1
	case f >= left && f < peak:
		return float64(f-left) / float64(peak-left)
	}
	return 0
}
