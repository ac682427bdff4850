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

	planned      [4]int // batch, M, N, K of the plan
	rows, cols   int    // of a tile
	down, across int    // tiles in a product
}

// Place is where the matrices of one product start.
type Place struct{ A, B, C int }

// Plan cuts the product into tiles and returns their number, and how many of them make a
// piece of work that is worth a thread. The tiles depend on the shapes only.
func (g *Gemm[T]) Plan() (tiles, grain int) {
	batch := 1
	if g.Batch != nil {
		batch = len(g.Batch)
	}
	if batch == 0 || g.M <= 0 || g.N <= 0 {
		g.planned, g.down, g.across = [4]int{}, 0, 0
		return 0, 1
	}
	if p := [4]int{batch, g.M, g.N, g.K}; p != g.planned {
		g.planned = p
		g.cut(batch)
	}
	return batch * g.down * g.across, int(1 + pieceCost/g.tileCost(g.rows, g.cols))
}

// What tiles cost, in multiply-adds: OpenBLAS copies a tile's operands into the order in which it
// reads them, at copyCost per element; a call costs callCost. A piece of work for one thread should
// cost pieceCost.
const (
	copyCost  = 64
	callCost  = 1e5
	pieceCost = 1e6
)

func (g *Gemm[T]) tileCost(rows, cols int) float64 {
	r, c, k := float64(min(rows, g.M)), float64(min(cols, g.N)), float64(g.K)
	return (r*c+(r+c)*copyCost)*k + callCost
}

// cut chooses the size of tiles that suits 2 to 16 threads best: a few large tiles cost least in
// all, and many small ones keep many threads busy.
func (g *Gemm[T]) cut(batch int) {
	const most, smallest = 16, 64
	best := 0.0
	for down := 1; down <= most && (down == 1 || g.M > (down-1)*smallest); down++ {
		for across := 1; down*across <= 2*most && (across == 1 || g.N > (across-1)*smallest); across++ {
			rows, cols := roundUp((g.M+down-1)/down, 8), roundUp((g.N+across-1)/across, 32)
			d, a := (g.M+rows-1)/rows, (g.N+cols-1)/cols
			cost := 0.0
			for threads := 2; threads <= most; threads *= 2 {
				// The product of threads and time, with half the weight for twice the threads.
				rounds := (batch*d*a + threads - 1) / threads
				cost += float64(rounds) * g.tileCost(rows, cols)
			}
			if best == 0 || cost < best {
				best, g.rows, g.cols, g.down, g.across = cost, rows, cols, d, a
			}
		}
	}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Range computes the tiles lo..hi-1 of the last Plan.
func (g *Gemm[T]) Range(lo, hi int) {
	for t := lo; t < hi; t++ {
		g.Compute(g.Tile(t))
	}
}

// Tile is a part of a result: rows Row.. and columns Col.. of the product at a place.
type Tile struct {
	Place
	Row, Rows, Col, Cols int
}

// Tile returns tile t of the last Plan.
func (g *Gemm[T]) Tile(t int) Tile {
	per := g.down * g.across
	var tile Tile
	if g.Batch != nil {
		tile.Place = g.Batch[t/per]
	}
	tile.Row, tile.Col = t%per/g.across*g.rows, t%g.across*g.cols
	tile.Rows, tile.Cols = min(g.rows, g.M-tile.Row), min(g.cols, g.N-tile.Col)
	return tile
}

// Compute computes one tile.
func (g *Gemm[T]) Compute(t Tile) {
	c := g.C[t.C+t.Row*g.LDC+t.Col:]
	if g.K == 0 {
		scale(t.Rows, t.Cols, g.Beta, c, g.LDC)
		return
	}
	Multiply(g.TransA, g.TransB, t.Rows, t.Cols, g.K,
		g.Alpha, g.A[t.A+place(g.TransA, t.Row, 0, g.LDA):], g.LDA,
		g.B[t.B+place(g.TransB, 0, t.Col, g.LDB):], g.LDB, g.Beta, c, g.LDC)
}
