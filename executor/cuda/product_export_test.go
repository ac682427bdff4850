package cuda

import (
	"errors"

	"memopt/executor/cuda/driver"
	"memopt/graph"
)

// Multiply computes a product on a device.
func Multiply(d *Device, g *driver.Gemm) error { return d.driver.Gemm(d.stream, g) }

// OwnProducts makes a device multiply by own kernels until restore is called.
func OwnProducts(d *Device) (restore func()) {
	old := d.products.why
	d.products.why = &driver.Missing{Err: errors.New("a test wants own kernels")}
	return func() { d.products.why = old }
}

// SetProductBlocks sets the number of blocks for which products are cut, and returns what it was.
func SetProductBlocks(n int) int {
	old := productBlocks
	productBlocks = n
	return old
}

// SetMostBatch sets how much of a batch is computed at a time, and returns what it was.
func SetMostBatch(n int) int {
	old := mostBatch
	mostBatch = n
	return old
}

// ProductTile returns the tile and the pieces of K of a product.
func ProductTile(g *driver.Gemm) (tile, pieces int) {
	p := planProduct(g)
	return p.tile, p.pieces
}

// ElementsOf returns numbers in the memory of a product's type.
func ElementsOf(e driver.Elem, x []float64) []byte {
	types := [...]graph.DType{driver.F32: graph.Float32, driver.F64: graph.Float64, driver.F16: graph.Float16,
		driver.BF16: graph.BFloat16}
	return elementsOf(types[e], x)
}
