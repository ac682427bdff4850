package blas

// Gemm is a product, or a batch of products of equal shapes, cut into tiles that may be computed
// at the same time:
//
//	tiles, grain := g.Plan()
//	c.Parallel(tiles, grain, g)
//
// The fields mean what the parameters of Sgemm do. A Gemm can be kept and used again.
type Gemm[T Float] struct {
	TransA, TransB bool
	M, N, K        int
	Alpha          T
	A              []T
	LDA            int
	B              []T
	LDB            int
	Beta           T
	C              []T
	LDC            int
	// Batch says where in A, B and C the matrices of each product start. Products must
	// not write the same elements. nil: one product, at the start of each.
	Batch []Place

	rows, cols   int // of a tile
	down, across int // tiles in a product
}

// Place is where the matrices of one product start.
type Place struct{ A, B, C int }

// A tile takes long enough that starting it costs little, and there are enough tiles for
// the threads of common machines. Both numbers depend on nothing but the shapes.
const (
	tileFLOPs = 4 << 20
	tileCount = 32
	minRows   = 64
	minCols   = 128
)

// Plan cuts the product into tiles and returns their number, and how many of them make a
// piece of work that is worth a thread.
func (g *Gemm[T]) Plan() (tiles, grain int) {
	batch := 1
	if g.Batch != nil {
		batch = len(g.Batch)
	}
	if batch == 0 || g.M <= 0 || g.N <= 0 {
		g.down, g.across = 0, 0
		return 0, 1
	}
	flops := 2 * float64(g.M) * float64(g.N) * float64(max(g.K, 1))
	parts := (tileCount + batch - 1) / batch
	if flops < float64(parts)*tileFLOPs {
		parts = int(flops/tileFLOPs) + 1
	}
	g.cut(parts)
	tile := flops / float64(g.down*g.across)
	return batch * g.down * g.across, max(1, int(tileFLOPs/8/tile))
}

// cut chooses the tiles' size: at most parts tiles, of the shape that has the least to read.
func (g *Gemm[T]) cut(parts int) {
	g.rows, g.cols, g.down, g.across = g.M, g.N, 1, 1
	best := 0.0
	for d := 1; d <= parts; d++ {
		rows := roundUp(max((g.M+d-1)/d, minRows), 8)
		cols := roundUp(max((g.N*d+parts-1)/parts, minCols), 32)
		down, across := (g.M+rows-1)/rows, (g.N+cols-1)/cols
		// What one of many threads does in all: its share of tiles, and their operands.
		work := float64(rows) * float64(cols) * (1 + 24/float64(rows) + 24/float64(cols))
		rounds := (down*across + 15) / 16
		cost := work * float64(rounds)
		if best == 0 || cost < best {
			best = cost
			g.rows, g.cols, g.down, g.across = rows, cols, down, across
		}
	}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Range computes the tiles lo..hi-1 of the last Plan.
func (g *Gemm[T]) Range(lo, hi int) {
	per := g.down * g.across
	for t := lo; t < hi; t++ {
		var at Place
		if g.Batch != nil {
			at = g.Batch[t/per]
		}
		i, j := t%per/g.across*g.rows, t%g.across*g.cols
		Multiply(g.TransA, g.TransB, min(g.rows, g.M-i), min(g.cols, g.N-j), g.K,
			g.Alpha, g.A[at.A+place(g.TransA, i, 0, g.LDA):], g.LDA,
			g.B[at.B+place(g.TransB, 0, j, g.LDB):], g.LDB, g.Beta, g.C[at.C+i*g.LDC+j:], g.LDC)
	}
}
