package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// byteElem lists the element types of quantized matrices.
type byteElem interface{ int8 | uint8 }

// byteMatMul computes sums of (a-zeroA)*(b-zeroB) in int32, row by row of the result. Zero points
// are one number, or one per row of A and per column of B.
type byteMatMul[A, B byteElem] struct {
	geometry     matMulShape
	a            []A
	b            []B
	zeroA        []A // nil means 0
	zeroB        []B
	perRow       bool // zeroA has an entry per row of every matrix of A
	perCol       bool
	perBatchCols bool // zeroB has its own columns for every matrix of B
}

// set reads the operands; the zero points are inputs za and zb.
func (k *byteMatMul[A, B]) set(c *executor.Ctx, a, za, b, zb int) error {
	x, y, s := c.In(a), c.In(b), &k.geometry
	if err := s.set(x.Shape, y.Shape); err != nil {
		return err
	}
	k.a, k.b, k.zeroA, k.zeroB = executor.Of[A](x), executor.Of[B](y), nil, nil
	k.perRow, k.perCol, k.perBatchCols = false, false, false
	if t := c.In(za); t != nil {
		k.zeroA = executor.Of[A](t)
		if t.Len() != 1 {
			rows := s.a.rows * product(s.a.dims)
			if t.Len() != rows || !perRowShape(t.Shape, x.Shape) {
				return c.Errorf("input %d has shape %v, wanted one number or one per row of %v", za, t.Shape, x.Shape)
			}
			k.perRow = true
		}
	}
	if t := c.In(zb); t != nil {
		k.zeroB = executor.Of[B](t)
		if t.Len() != 1 {
			if !perColShape(t.Shape, y.Shape) {
				return c.Errorf("input %d has shape %v, wanted one number or one per column of %v",
					zb, t.Shape, y.Shape)
			}
			k.perCol = true
			k.perBatchCols = t.Len() == s.n*product(s.b.dims)
		}
	}
	return nil
}

// perRowShape reports whether a shape has one entry per row of matrices: [M] for one matrix, else
// their shape with 1 for the columns.
func perRowShape(s, matrix []int) bool {
	if n := len(matrix); n >= 2 {
		return len(s) == 1 && s[0] == matrix[n-2] && product(matrix[:n-2]) == 1 ||
			len(s) == n && s[n-1] == 1 && equalDims(s[:n-1], matrix[:n-1])
	}
	return false
}

// perColShape reports whether a shape has one entry per column: [N], the same for all matrices,
// or their shape with 1 for the rows.
func perColShape(s, matrix []int) bool {
	if n := len(matrix); n >= 2 {
		return len(s) == 1 && s[0] == matrix[n-1] ||
			len(s) == n && s[n-2] == 1 && s[n-1] == matrix[n-1] && equalDims(s[:n-2], matrix[:n-2])
	}
	return false
}

func equalDims(a, b []int) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// rows returns the number of rows of all results, and how many make a piece of work.
func (k *byteMatMul[A, B]) rows() (n, grain int) {
	s := &k.geometry
	return len(s.places) * s.m, 1 + 1<<14/max(1, s.n*s.k)
}

// row computes row r of all results into out, and returns the row of A that it belongs to
// and where its columns start among those of all matrices of B.
func (k *byteMatMul[A, B]) row(r int, out []int32) (rowA, colB int) {
	s := &k.geometry
	at, i := s.places[r/s.m], r%s.m
	rowA = i
	if s.k > 0 {
		rowA += at.A / s.k
		colB = at.B / s.k
	}
	var zero, sum int32
	if k.zeroA != nil {
		zero = int32(k.zeroA[0])
		if k.perRow {
			zero = int32(k.zeroA[rowA])
		}
	}
	clear(out)
	for l, v := range k.a[at.A+i*s.k:][:s.k] {
		f := int32(v) - zero
		sum += f
		for j, w := range k.b[at.B+l*s.n:][:len(out)] {
			out[j] += f * int32(w)
		}
	}
	switch {
	case k.zeroB == nil:
	case k.perCol:
		first := 0
		if k.perBatchCols {
			first = colB
		}
		for j, z := range k.zeroB[first:][:len(out)] {
			out[j] -= sum * int32(z)
		}
	default:
		shift := sum * int32(k.zeroB[0])
		for j := range out {
			out[j] -= shift
		}
	}
	return rowA, colB
}

// matMulIntegerKernel multiplies 8-bit integers less their zero points:
// https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
type matMulIntegerKernel[A, B byteElem] struct {
	byteMatMul[A, B]
	y []int32
}

func newMatMulInteger(p *executor.Prep) (executor.Kernel, error) {
	for i := range 2 {
		if p.Has(i+2) && p.DType(i+2) != p.DType(i) {
			return nil, p.Errorf("the zero point, input %d, has type %v, wanted %v", i+2, p.DType(i+2), p.DType(i))
		}
	}
	switch [2]graph.DType{p.DType(0), p.DType(1)} {
	case [2]graph.DType{graph.Int8, graph.Int8}:
		return new(matMulIntegerKernel[int8, int8]), nil
	case [2]graph.DType{graph.Int8, graph.Uint8}:
		return new(matMulIntegerKernel[int8, uint8]), nil
	case [2]graph.DType{graph.Uint8, graph.Int8}:
		return new(matMulIntegerKernel[uint8, int8]), nil
	case [2]graph.DType{graph.Uint8, graph.Uint8}:
		return new(matMulIntegerKernel[uint8, uint8]), nil
	}
	return nil, unsupportedTypes(p)
}

// Run multiplies.
func (k *matMulIntegerKernel[A, B]) Run(c *executor.Ctx) error {
	if err := k.set(c, 0, 2, 1, 3); err != nil {
		return err
	}
	k.y = executor.Of[int32](c.Out(0, k.geometry.shape...))
	n, grain := k.rows()
	c.Parallel(n, grain, k)
	return nil
}

// Range computes rows of the result.
func (k *matMulIntegerKernel[A, B]) Range(lo, hi int) {
	n := k.geometry.n
	for r := lo; r < hi; r++ {
		k.row(r, k.y[r*n:][:n])
	}
}

// qLinearMatMulKernel multiplies quantized matrices and quantizes the result:
// y = saturate(round(sum * scaleA*scaleB/scaleY) + zeroY), halves rounding to even.
//
//	https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html
type qLinearMatMulKernel[A, B, Y byteElem] struct {
	byteMatMul[A, B]
	scaleA, scaleB []float32
	scaleY         float32
	zeroY          int32
	y              []Y
	sums           []int32
	wide           [3][]float32 // scales of 16 bits, converted
	lowest, most   int32
}

func newQLinearMatMul(p *executor.Prep) (executor.Kernel, error) {
	for _, i := range []int{0, 3} {
		if p.DType(i+2) != p.DType(i) {
			return nil, p.Errorf("the zero point, input %d, has type %v, wanted %v", i+2, p.DType(i+2), p.DType(i))
		}
	}
	for _, i := range []int{1, 4, 6} {
		if d := p.DType(i); d != graph.Float32 && !isHalf(d) {
			return nil, unsupportedTypes(p)
		}
	}
	switch [2]graph.DType{p.DType(0), p.DType(3)} {
	case [2]graph.DType{graph.Int8, graph.Int8}:
		return newQLinearTo[int8, int8](p)
	case [2]graph.DType{graph.Int8, graph.Uint8}:
		return newQLinearTo[int8, uint8](p)
	case [2]graph.DType{graph.Uint8, graph.Int8}:
		return newQLinearTo[uint8, int8](p)
	case [2]graph.DType{graph.Uint8, graph.Uint8}:
		return newQLinearTo[uint8, uint8](p)
	}
	return nil, unsupportedTypes(p)
}

func newQLinearTo[A, B byteElem](p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(7) {
	case graph.Int8:
		return &qLinearMatMulKernel[A, B, int8]{lowest: math.MinInt8, most: math.MaxInt8}, nil
	case graph.Uint8:
		return &qLinearMatMulKernel[A, B, uint8]{most: math.MaxUint8}, nil
	}
	return nil, unsupportedTypes(p)
}

// Workspace holds the sums.
func (k *qLinearMatMulKernel[A, B, Y]) Workspace(_, out [][]int) int {
	return executor.RoundUp(4 * product(out[0]))
}

// Run multiplies.
func (k *qLinearMatMulKernel[A, B, Y]) Run(c *executor.Ctx) error {
	if err := k.set(c, 0, 2, 3, 5); err != nil {
		return err
	}
	k.scaleA, k.scaleB = k.scale(c, 1, 0), k.scale(c, 4, 1)
	scaleY := k.scale(c, 6, 2)
	s := &k.geometry
	switch {
	case len(k.scaleA) != 1 && !perRowShape(c.In(1).Shape, c.In(0).Shape):
		return c.Errorf("input 1 has shape %v, wanted one number or one per row of %v", c.In(1).Shape, c.In(0).Shape)
	case len(k.scaleB) != 1 && !perColShape(c.In(4).Shape, c.In(3).Shape):
		return c.Errorf("input 4 has shape %v, wanted one number or one per column of %v", c.In(4).Shape, c.In(3).Shape)
	case len(scaleY) != 1 || c.In(7).Len() != 1:
		return c.Errorf("inputs 6 and 7 have shapes %v and %v, wanted one number each", c.In(6).Shape, c.In(7).Shape)
	}
	k.scaleY, k.zeroY = scaleY[0], int32(executor.Of[Y](c.In(7))[0])
	k.y = executor.Of[Y](c.Out(0, s.shape...))
	k.sums = executor.ScratchOf[int32](c, len(k.y))
	n, grain := k.rows()
	c.Parallel(n, grain, k)
	return nil
}

// scale returns an input of scales as float32.
func (k *qLinearMatMulKernel[A, B, Y]) scale(c *executor.Ctx, i, slot int) []float32 {
	t := c.In(i)
	if t.DType == graph.Float32 {
		return executor.Of[float32](t)
	}
	for len(k.wide[slot]) < t.Len() {
		k.wide[slot] = append(k.wide[slot], 0)
	}
	w := k.wide[slot][:t.Len()]
	widen(w, t.DType, t.Data)
	return w
}

// Range computes rows of the result.
func (k *qLinearMatMulKernel[A, B, Y]) Range(lo, hi int) {
	n := k.geometry.n
	for r := lo; r < hi; r++ {
		sums, out := k.sums[r*n:][:n], k.y[r*n:][:n]
		rowA, colB := k.row(r, sums)
		scaleA, scaleB, step := k.scaleA[0], k.scaleB, 0
		if len(k.scaleA) > 1 {
			scaleA = k.scaleA[rowA]
		}
		if len(scaleB) > 1 {
			step = 1
		}
		if len(scaleB) > n {
			scaleB = scaleB[colB:]
		}
		for j, sum := range sums {
			f := scaleA * scaleB[j*step] / k.scaleY
			v := math.RoundToEven(float64(float32(sum) * f))
			out[j] = Y(max(float64(k.lowest), min(float64(k.most), v+float64(k.zeroY))))
		}
	}
}
