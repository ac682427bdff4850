package cuda

import (
	"memopt/executor/cuda/driver"
)

// tileKernel returns the kernel for tiles of a size, and the threads of its blocks.
func tileKernel(tile int) (name string, threads int) {
	switch tile {
	case 128:
		return "gemm128", 256
	case 64:
		return "gemm64", 128
	}
	return "gemm32", 64
}

// mostBatch is how many blocks a grid can have along its third dimension. Tests lower it.
var mostBatch = 65535

// multiply computes a product by own kernels, as much of the batch at a time as a grid holds.
func (p *products) multiply(s driver.Stream, g *driver.Gemm) error {
	size := g.Elem.Size()
	for at := 0; at < g.Batch; at += mostBatch {
		some := *g
		some.Batch = min(g.Batch-at, mostBatch)
		some.A, some.B, some.C = memoryFrom(g.A, at*g.StrideA*size), memoryFrom(g.B, at*g.StrideB*size),
			memoryFrom(g.C, at*g.StrideC*size)
		if err := p.some(s, &some); err != nil {
			return err
		}
	}
	return nil
}

// memoryFrom returns the memory from byte i on, empty if it ends before: operands without elements
// may have no memory.
func memoryFrom(b []byte, i int) []byte { return b[min(i, len(b)):] }

// some computes a product whose batch a grid holds.
func (p *products) some(s driver.Stream, g *driver.Gemm) error {
	if g.M == 1 || g.N == 1 {
		return p.vector(s, g)
	}
	return p.tiles(s, g, planProduct(g))
}

// tiles computes a product by tiles.
func (p *products) tiles(s driver.Stream, g *driver.Gemm, plan productPlan) error {
	ea, eb, ec := g.Extents()
	a := p.args.Reset()
	a.In(g.A[:ea]).In(g.B[:eb]).Out(g.C[:ec]).Out(partsOf(g, plan.pieces))
	for _, v := range [...]int{g.M, g.N, g.K, g.LDA, g.LDB, g.LDC, g.StrideA, g.StrideB, g.StrideC, plan.chunk} {
		a.Int(v)
	}
	a.Float64(g.Alpha).Float64(g.Beta).Uint32(flag(!g.TransA)).Uint32(flag(g.TransB))
	name, threads := tileKernel(plan.tile)
	shape := driver.Line(tilesAlong(g.M, plan.tile)*tilesAlong(g.N, plan.tile), threads)
	if err := p.launch(s, name, g, plan.pieces, shape); err != nil {
		return err
	}
	return p.addParts(s, g, plan.pieces)
}

// partsOf returns the memory for the sums of the pieces of K, nil for one piece.
func partsOf(g *driver.Gemm, pieces int) []byte {
	if pieces == 1 {
		return nil
	}
	return g.Workspace[:pieces*g.M*g.N*g.Batch*max(g.Elem.Size(), 4)]
}

// launch runs a kernel with the packed arguments: pieces are the grid's second dimension, the batch
// its third.
func (p *products) launch(s driver.Stream, name string, g *driver.Gemm, pieces int, shape driver.Shape) error {
	f, err := p.kernel(name, g.Elem)
	if err != nil {
		return err
	}
	shape.Grid[1], shape.Grid[2] = uint32(pieces), uint32(g.Batch)
	return p.Launch(f, shape, s, &p.args)
}

// addParts adds up the pieces of K.
func (p *products) addParts(s driver.Stream, g *driver.Gemm, pieces int) error {
	if pieces == 1 {
		return nil
	}
	_, _, ec := g.Extents()
	f, err := p.kernel("gemmparts", g.Elem)
	if err != nil {
		return err
	}
	count := g.M * g.N * g.Batch
	a := p.args.Reset()
	a.In(partsOf(g, pieces)).Out(g.C[:ec])
	for _, v := range [...]int{count, pieces, g.LDC, g.StrideC} {
		a.Int(v)
	}
	a.Divider(g.N).Divider(g.M).Float64(g.Alpha).Float64(g.Beta)
	const threads = 256
	return p.Launch(f, driver.Line(min(tilesAlong(count, threads), 32*p.Info().Processors), threads), s, a)
}

// vectorOf is a product of a matrix and a vector: y[r] = alpha * the sum over k of X[r,k]*v[k] +
// beta*y[r].
type vectorOf struct {
	x, v             []byte
	rows             int
	deep             bool // the elements of a row lie side by side
	ld, stepV, stepY int
	strideX, strideV int
}

// vectorView treats a product with M or N 1 as one of a matrix and a vector.
func vectorView(g *driver.Gemm) vectorOf {
	ea, eb, _ := g.Extents()
	if g.N == 1 {
		w := vectorOf{x: g.A[:ea], v: g.B[:eb], rows: g.M, deep: !g.TransA, ld: g.LDA, stepV: g.LDB, stepY: g.LDC,
			strideX: g.StrideA, strideV: g.StrideB}
		if g.TransB {
			w.stepV = 1
		}
		return w
	}
	w := vectorOf{
		x: g.B[:eb], v: g.A[:ea], rows: g.N, deep: g.TransB, ld: g.LDB, stepV: 1, stepY: 1, strideX: g.StrideB,
		strideV: g.StrideA,
	}
	if g.TransA {
		w.stepV = g.LDA
	}
	return w
}

// vector computes a product of a matrix and a vector. Where the elements of a row lie side by side
// a warp sums up a row, or a block one that is long; else 8 warps sum up 32 rows.
func (p *products) vector(s driver.Stream, g *driver.Gemm) error {
	w := vectorView(g)
	name, shape := "gemvflat", driver.Line(tilesAlong(w.rows, 32), 32)
	shape.Block[1] = 8
	if w.deep {
		name, shape = "gemvdeep", driver.Line(min(tilesAlong(w.rows, 4), 1<<20), 32)
		shape.Block[1] = 4
		if g.K > 1024 {
			shape = driver.Line(min(w.rows, 1<<20), 256)
		}
	}
	plan := productPlan{}
	plan.cut(g, int(shape.Grid[0])*g.Batch)
	_, _, ec := g.Extents()
	a := p.args.Reset()
	a.In(w.x).In(w.v).Out(g.C[:ec]).Out(partsOf(g, plan.pieces))
	for _, v := range [...]int{w.rows, g.K, w.ld, w.stepV, w.stepY, w.strideX, w.strideV, g.StrideC, plan.chunk} {
		a.Int(v)
	}
	a.Float64(g.Alpha).Float64(g.Beta)
	if err := p.launch(s, name, g, plan.pieces, shape); err != nil {
		return err
	}
	return p.addParts(s, g, plan.pieces)
}
