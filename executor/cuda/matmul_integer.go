package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/graph"
)

// intProduct is a product of matrices of 8-bit integers: int_product of kernels/intproduct.cu.
type intProduct struct {
	*launch
	m, n, k, count, period int
	stepA, stepB           int // elements from one matrix to the next
	rows, columns          int // rows of A and columns of B from one matrix to the next
	quantizes              bool

	a, b intOperand
	y    intOperand
	bias []byte
}

// intOperand is a matrix of integers with its zero points and scales, each of which may be left
// out: one of all, or one per row or column.
type intOperand struct{ data, zero, scale *executor.Tensor }

// intTile is TILE of kernels/intproduct.cu.
const intTile = 64

// isByte reports whether a type is of 8-bit integers.
func isByte(t graph.DType) bool { return t == graph.Int8 || t == graph.Uint8 }

// One number, one for each row or column, or one for each of every matrix: EACH_ of
// kernels/intproduct.cu.
const (
	eachNone = iota
	eachLine
	eachMatrix
)

// each says for which lines of n per matrix an operand has a number.
func each(t *executor.Tensor, n int) uint32 {
	switch {
	case t == nil || t.Len() == 1:
		return eachNone
	case t.Len() == n:
		return eachLine
	}
	return eachMatrix
}

// pack packs int_product.
func (k *intProduct) pack(a *driver.Args) {
	a.In(k.a.data.Data)
	a.In(k.b.data.Data)
	a.In(dataOf(k.a.zero))
	a.In(dataOf(k.b.zero))
	a.In(dataOf(k.a.scale))
	a.In(dataOf(k.b.scale))
	a.In(dataOf(k.y.scale))
	a.In(dataOf(k.y.zero))
	a.In(k.bias)
	a.Out(k.y.data.Data)
	for _, v := range [...]int{k.m, k.n, k.k, k.count, k.period, k.stepA, k.stepB, k.rows, k.columns} {
		a.Int(v)
	}
	for _, t := range [...]*executor.Tensor{k.a.data, k.b.data, k.y.data} {
		n, _ := integerType(t.DType)
		a.Uint32(n)
	}
	for _, t := range [...]*executor.Tensor{k.a.scale, k.b.scale, k.y.scale} {
		a.Uint32(typeOf(t))
	}
	for _, o := range [...]struct {
		t *executor.Tensor
		n int
	}{{k.a.zero, k.m}, {k.b.zero, k.n}, {k.a.scale, k.m}, {k.b.scale, k.n}} {
		a.Uint32(each(o.t, o.n))
	}
	a.Uint32(flag(k.quantizes))
}

// tiles runs the kernel with a block per tile.
func (k *intProduct) tiles() error {
	return k.launch.rows(k.count*((k.m+intTile-1)/intTile)*((k.n+intTile-1)/intTile), 256, 0)
}

// intMatMul is MatMulInteger, or QLinearMatMul.
type intMatMul struct {
	matMulKernel // for the shapes
	intProduct
	views [7]executor.Tensor // of the operands, from the place on where a product begins
}

// newIntMatMul makes the kernel of MatMulInteger, or of QLinearMatMul.
func newIntMatMul(quantizes bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		b := 1
		if quantizes {
			b = 3
			if !isByte(p.DType(7)) || !isFloat(p.DType(1)) || !isFloat(p.DType(4)) || !isFloat(p.DType(6)) {
				return nil, noTypes(p)
			}
		}
		if !isByte(p.DType(0)) || !isByte(p.DType(b)) {
			return nil, noTypes(p)
		}
		l, err := d.launch("intproduct", "int_matmul")
		return &intMatMul{matMulKernel{product: &product{d: d}}, intProduct{launch: l, quantizes: quantizes},
			[7]executor.Tensor{}}, err
	}
}

// Workspace is 0: the library of products takes no part in this.
func (k *intMatMul) Workspace(_, _ [][]int) int { return 0 }

// Run multiplies.
func (k *intMatMul) Run(c *executor.Ctx) error {
	k.a, k.b = intOperand{data: c.In(0), zero: c.In(2)}, intOperand{data: c.In(1), zero: c.In(3)}
	if k.quantizes {
		k.a, k.b = intOperand{c.In(0), c.In(2), c.In(1)}, intOperand{c.In(3), c.In(5), c.In(4)}
		k.y = intOperand{zero: c.In(7), scale: c.In(6)}
		if k.y.scale.Len() != 1 || k.y.zero.Len() != 1 {
			return c.Errorf("inputs 6 and 7 have shapes %v and %v, wanted one number each",
				k.y.scale.Shape, k.y.zero.Shape)
		}
	}
	a, b := k.a.data.Shape, k.b.data.Shape
	if err := k.geometry(c, a, b); err != nil {
		return err
	}
	for _, t := range [...]*executor.Tensor{k.a.zero, k.a.scale} {
		if t != nil && t.Len() != 1 && !perRow(t.Shape, a) {
			return c.Errorf("the zero point or scale of input 0 has shape %v, wanted one number or one per row of %v",
				t.Shape, a)
		}
	}
	for _, t := range [...]*executor.Tensor{k.b.zero, k.b.scale} {
		if t != nil && t.Len() != 1 && !perColumn(t.Shape, b) {
			return c.Errorf("the zero point or scale of B has shape %v, wanted one number or one per column of %v",
				t.Shape, b)
		}
	}
	if k.y.data = c.Out(0, k.shape...); k.y.data == nil || k.y.data.Len() == 0 {
		return nil
	}
	return k.products()
}

// products runs the product over all axes of the batch.
func (k *intMatMul) products() error {
	g, whole := &k.gemm, k.intProduct
	defer func() { k.intProduct = whole }()
	k.m, k.n, k.k, k.count, k.period = g.M, g.N, g.K, g.Batch, g.Batch
	k.stepA, k.stepB = g.StrideA, g.StrideB
	k.rows, k.columns = g.StrideA/max(g.K, 1), g.StrideB/max(g.K, 1)
	return k.along(k.axes, batchAxis{}, &whole)
}

// along runs the products along some axes, of which the first one begins at a place in the
// operands.
func (k *intMatMul) along(axes []batchAxis, at batchAxis, whole *intProduct) error {
	if len(axes) == 0 {
		return k.one(at, whole)
	}
	for range axes[0].n {
		if err := k.along(axes[1:], at, whole); err != nil {
			return err
		}
		at = batchAxis{a: at.a + axes[0].a, b: at.b + axes[0].b, c: at.c + axes[0].c}
	}
	return nil
}

// one runs a product whose operands begin at a place.
func (k *intMatMul) one(at batchAxis, whole *intProduct) error {
	rows, columns := at.a/max(k.k, 1), at.b/max(k.k, 1)
	k.a = intOperand{k.view(0, whole.a.data, at.a), k.view(1, whole.a.zero, rows), k.view(2, whole.a.scale, rows)}
	k.b = intOperand{k.view(3, whole.b.data, at.b), k.columnView(4, whole.b.zero, columns),
		k.columnView(5, whole.b.scale, columns)}
	k.y.data = k.view(6, whole.y.data, at.c)
	k.intProduct.pack(k.begin())
	return k.tiles()
}

// view returns a tensor from element at on; it keeps its shape. One number stays as it is.
func (k *intMatMul) view(i int, t *executor.Tensor, at int) *executor.Tensor {
	if t == nil || t.Len() == 1 {
		return t
	}
	v := &k.views[i]
	*v = *t
	v.Data = t.Data[at*t.DType.Bits()/8:]
	return v
}

// columnView is view of what there is for each column of B; one row for all matrices stays as it
// is.
func (k *intMatMul) columnView(i int, t *executor.Tensor, at int) *executor.Tensor {
	if t != nil && t.Len() == k.n {
		at = 0
	}
	return k.view(i, t, at)
}

// perRow reports whether a shape has one entry per row of matrices: a vector for one matrix, else 1
// in place of the columns.
func perRow(s, matrix []int) bool {
	n := len(matrix)
	if n < 2 {
		return false
	}
	return len(s) == 1 && s[0] == matrix[n-2] && elements(matrix[:n-2]) == 1 ||
		len(s) == n && s[n-1] == 1 && slices.Equal(s[:n-1], matrix[:n-1])
}

// perColumn reports whether a shape has one entry per column of matrices: a vector for all, or 1 in
// place of the rows.
func perColumn(s, matrix []int) bool {
	n := len(matrix)
	if n < 2 {
		return false
	}
	return len(s) == 1 && s[0] == matrix[n-1] ||
		len(s) == n && s[n-2] == 1 && s[n-1] == matrix[n-1] && slices.Equal(s[:n-2], matrix[:n-2])
}
