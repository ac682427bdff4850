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

// What tiles cost, in multiply-adds: OpenBLAS copies a tile's operands into the order in which it reads
// them, at copyCost per element; a call takes callCost. A piece of work for one thread
// should take pieceCost.
const (
	copyCost  = 32
	callCost  = 1e5
	pieceCost = 1e6
)

func (g *Gemm[T]) tileCost(rows, cols int) float64 {
	r, c, k := float64(min(rows, g.M)), float64(min(cols, g.N)), float64(g.K)
	return (r*c+(r+c)*copyCost)*k + callCost
}

// cut chooses the size of tiles that suits 2 to 16 threads best: small numbers of large tiles
// cost least in all, and large numbers of small ones keep many threads busy.
func (g *Gemm[T]) cut(batch int) {
	const most, smallest = 16, 64
	best := 0.0
	for down := 1; down <= most && (down == 1 || g.M > (down-1)*smallest); down++ {
		for across := 1; down*across <= 2*most && (across == 1 || g.N > (across-1)*smallest); across++ {
			rows, cols := roundUp((g.M+down-1)/down, 8), roundUp((g.N+across-1)/across, 32)
			d, a := (g.M+rows-1)/rows, (g.N+cols-1)/cols
			cost := 0.0
			for threads := 2; threads <= most; threads *= 2 {
				// The product of threads and time, half as important for twice the threads.
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
