package blas

import "memopt/graph/op"

// Grain is the multiple of rows and of terms where products are cut. Bands of Grain rows are
// computed apart, each in tiles that depend on the band's rows and on N alone. The terms of a sum
// are added Grain at a time, by a call that goes on from the previous call's sums in C.
//
// So rows that are cut out of a product at multiples of Grain are computed by the same calls of the
// library alone as in the whole, and have the same bits. For example, rows 0 to Grain-1 do. The
// same holds for a product of the first terms of each sum, up to a multiple of Grain, followed by
// one of the others with Beta 1 on the same C.
//
// Products that are added to C afterwards do not give these bits everywhere: gonum begins each sum
// with the element of C, and so does oneDNN for vectors.
const Grain = op.ProductGrain

// Gemm is a product, or a batch of products of equal shapes, cut into tiles that may be computed at
// the same time:
//
//	tiles, grain := g.Plan()
//	c.Parallel(tiles, grain, g)
//
// The fields have the meaning of Sgemm's parameters. A Gemm can be kept and used again.
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
	// Batch says where in A, B and C the matrices of each product start. Products must not write
	// the same elements. nil means one product, at the start of each.
	Batch []Place

	planned [3]int // batch, M, N of the plan
	bands   int    // of Grain rows in a product
	band    cut    // of each of them
	rest    cut    // of the rows behind them
}

// Place is where the matrices of one product start.
type Place struct{ A, B, C int }

// cut says how the columns of a band are cut: into so many tiles, all but the last of equal width.
type cut struct{ tiles, cols int }

// Plan cuts the product into tiles and returns their number, and how many of them make a
// piece of work that is worth a thread. The tiles depend on the shapes only.
func (g *Gemm[T]) Plan() (tiles, grain int) {
	batch := 1
	if g.Batch != nil {
		batch = len(g.Batch)
	}
	if batch == 0 || g.M <= 0 || g.N <= 0 {
		g.planned = [3]int{}
		return 0, 1
	}
	if p := [3]int{batch, g.M, g.N}; p != g.planned {
		g.planned, g.bands = p, g.M/Grain
		g.band, g.rest = cutBand(Grain, g.N), cutBand(g.M%Grain, g.N)
	}
	rows, cols := Grain, g.band.cols
	if g.bands == 0 {
		rows, cols = g.M, g.rest.cols
	}
	return batch * g.perProduct(), int(1 + pieceCost/g.tileCost(rows, cols))
}

// perProduct is the number of tiles in a product.
func (g *Gemm[T]) perProduct() int { return g.bands*g.band.tiles + g.rest.tiles }

// The cost of tiles, in multiply-adds: OpenBLAS copies a tile's operands into its own order, at
// copyCost per element; a call costs callCost. A piece of work for one thread should cost
// pieceCost.
const (
	copyCost  = 64
	callCost  = 1e5
	pieceCost = 1e6
)

func (g *Gemm[T]) tileCost(rows, cols int) float64 {
	return areaCost(rows, cols)*float64(g.K) + callCost*float64(1+g.K/Grain)
}

// areaCost is the cost of a tile for each term of its sums.
func areaCost(rows, cols int) float64 {
	r, c := float64(rows), float64(cols)
	return r*c + (r+c)*copyCost
}

// cutBand cuts a band of columns by its shape alone, whatever lies above and below it and however
// many terms the sums have.
func cutBand(rows, n int) cut {
	const narrow, wide = 512, 2048
	switch {
	case rows == 0:
		return cut{}
	case rows < Grain:
		return cutFewRows(rows, n)
	case n <= narrow:
		return evenly(n, 1)
	}
	// Wide tiles cost least, 1024 columns 2 to 4 % less than 512; but a single one across would
	// leave one of two threads idle behind the last band.
	return evenly(n, max(2, (n+wide-1)/wide))
}

// cutFewRows chooses the width of tiles that suits 2 to 16 threads best: a few large tiles cost
// least in all, and many small ones keep many threads busy.
func cutFewRows(rows, n int) cut {
	const most, smallest = 16, 128
	var chosen cut
	best := 0.0
	for tiles := 1; tiles <= most && (tiles == 1 || n >= tiles*smallest); tiles++ {
		c, cost := evenly(n, tiles), 0.0
		for threads := 2; threads <= most; threads *= 2 {
			// The product of threads and time, with half the weight for twice the threads.
			rounds := (c.tiles + threads - 1) / threads
			cost += float64(rounds) * areaCost(rows, c.cols)
		}
		if best == 0 || cost < best {
			best, chosen = cost, c
		}
	}
	return chosen
}

// evenly cuts n columns into about so many tiles of equal width, a multiple of 32 unless there is
// but one.
func evenly(n, tiles int) cut {
	cols := n
	if tiles > 1 {
		cols = roundUp((n+tiles-1)/tiles, 32)
	}
	return cut{(n + cols - 1) / cols, cols}
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
	per := g.perProduct()
	var tile Tile
	if g.Batch != nil {
		tile.Place = g.Batch[t/per]
	}
	t %= per
	row, across := g.bands, g.rest
	if full := g.bands * g.band.tiles; t < full {
		row, t, across = t/g.band.tiles, t%g.band.tiles, g.band
	} else {
		t -= full
	}
	tile.Row, tile.Col = row*Grain, t*across.cols
	tile.Rows, tile.Cols = min(Grain, g.M-tile.Row), min(across.cols, g.N-tile.Col)
	return tile
}

// Compute computes one tile.
func (g *Gemm[T]) Compute(t Tile) {
	c := g.C[t.C+t.Row*g.LDC+t.Col:]
	if g.K == 0 {
		scale(t.Rows, t.Cols, g.Beta, c, g.LDC)
		return
	}
	beta := g.Beta
	for k := 0; k < g.K; k += Grain {
		Multiply(g.TransA, g.TransB, t.Rows, t.Cols, min(Grain, g.K-k),
			g.Alpha, g.A[t.A+place(g.TransA, t.Row, k, g.LDA):], g.LDA,
			g.B[t.B+place(g.TransB, k, t.Col, g.LDB):], g.LDB, beta, c, g.LDC)
		beta = 1
	}
}
