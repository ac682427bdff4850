package cuda

import "memopt/executor/cuda/driver"

// productBlocks is how many blocks keep a large GPU busy; tests lower it. It is one number for all
// GPUs: the cuts of a product decide the order of its sums, and so its last bits.
var productBlocks = 120

// leastPiece is the least length of a piece of K.
const leastPiece = 256

// productPlan says how own kernels cut a product. It follows from the shapes, the type and the
// workspace.
type productPlan struct {
	tile   int // of 128, 64 or 32 rows and columns
	pieces int // of K, summed up apart and then added in order
	chunk  int // the length of all pieces but the last
}

// planProduct takes the largest tiles that give enough pieces, counting that K may be cut as well.
// Tiles that are mostly empty are not taken.
func planProduct(g *driver.Gemm) productPlan {
	tile := 32
	for _, t := range [...]int{128, 64} {
		if t == 128 && g.Elem == driver.F64 || min(g.M, g.N) <= t/2 {
			continue
		}
		blocks := tilesAlong(g.M, t) * tilesAlong(g.N, t) * g.Batch
		if blocks*morePieces(g, blocks) >= productBlocks*3/4 {
			tile = t
			break
		}
	}
	p := productPlan{tile: tile}
	p.cut(g, tilesAlong(g.M, tile)*tilesAlong(g.N, tile)*g.Batch)
	return p
}

// cut cuts K for so many blocks.
func (p *productPlan) cut(g *driver.Gemm, blocks int) {
	p.chunk = max(tilesAlong(tilesAlong(g.K, morePieces(g, blocks)), 32)*32, 32)
	p.pieces = max(tilesAlong(g.K, p.chunk), 1)
}

// morePieces returns the pieces of K that make up for too few blocks, as far as K is long enough
// and the workspace has room.
func morePieces(g *driver.Gemm, blocks int) int {
	sums := g.M * g.N * g.Batch * max(g.Elem.Size(), 4)
	return max(min(tilesAlong(productBlocks, blocks), g.K/leastPiece, len(g.Workspace)/sums), 1)
}

// tilesAlong divides and rounds up.
func tilesAlong(n, by int) int { return (n + by - 1) / by }
