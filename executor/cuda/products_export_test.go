package cuda

import "memopt/executor/cuda/driver"

// Multiply computes a product on a device.
func Multiply(d *Device, g *driver.Gemm) error { return d.driver.Gemm(d.stream, g) }

// SetProductBlocks sets the number of blocks for which products are cut, and returns what it was.
func SetProductBlocks(n int) int {
	old := productBlocks
	productBlocks = n
	return old
}

// ProductTile returns the tile and the pieces of K of a product.
func ProductTile(g *driver.Gemm) (tile, pieces int) {
	p := planProduct(g)
	return p.tile, p.pieces
}
