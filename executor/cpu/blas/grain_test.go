package blas

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// grainShapes are products of several bands, of one, and of few rows; of one tile across and of
// several; of sums that end with a block, that do not, and that are one.
var grainShapes = [][3]int{{500, 70, 450}, {390, 530, 200}, {192, 33, 577}, {250, 1, 400}, {40, 300, 200},
	{1, 300, 400}}

// wavy is a product of numbers whose sums show their order in their bits.
func wavy(ta, tb bool, s [3]int, batch int, beta float32) *Gemm[float32] {
	m, n, k := s[0], s[1], s[2]
	a, b := newMatrix[float32](ta, m, k, 0, 1), newMatrix[float32](tb, k, n, 0, 2)
	g := &Gemm[float32]{TransA: ta, TransB: tb, M: m, N: n, K: k, Alpha: 1, A: a.data, LDA: a.ld, B: b.data,
		LDB: b.ld, Beta: beta, C: make([]float32, batch*m*n), LDC: n}
	for i := range batch {
		g.Batch = append(g.Batch, Place{C: i * m * n})
	}
	for _, x := range [][]float32{g.A, g.B, g.C} {
		for i := range x {
			x[i] = float32(math.Sin(float64(i)))
		}
	}
	return g
}

// of returns a product on a copy of C.
func (g *Gemm[T]) of(change func(g *Gemm[T])) []T {
	c := *g
	c.C, c.planned = slices.Clone(g.C), [3]int{}
	change(&c)
	tiles, _ := c.Plan()
	for t := tiles - 1; t >= 0; t-- {
		c.Range(t, t+1)
	}
	return c.C
}

// eachGrainCase calls f with products of all shapes and forms.
func eachGrainCase(t *testing.T, f func(t *testing.T, g *Gemm[float32])) {
	for _, s := range grainShapes {
		for bits := range 8 {
			ta, tb, beta := bits&1 != 0, bits&2 != 0, float32(bits>>2)/2
			t.Run(fmt.Sprint(s, ta, tb, beta), func(t *testing.T) { f(t, wavy(ta, tb, s, 1, beta)) })
		}
	}
}

// TestRowsOfProduct: rows that are cut out at multiples of Grain have the bits that they have in the
// whole, in a batch as well.
func TestRowsOfProduct(t *testing.T) {
	backends(t, func(t *testing.T) {
		eachGrainCase(t, func(t *testing.T, g *Gemm[float32]) {
			whole := g.of(func(*Gemm[float32]) {})
			for from := 0; from < g.M; from += Grain {
				for to := from + Grain; to < g.M+Grain; to += Grain {
					to := min(to, g.M)
					part := g.of(func(p *Gemm[float32]) {
						p.M, p.A, p.C = to-from, p.A[place(p.TransA, from, 0, p.LDA):], p.C[from*p.LDC:]
					})
					want := whole[from*g.N : to*g.N]
					require.True(t, slices.Equal(want, part[:len(want)]), "rows %d to %d", from, to)
				}
			}
		})
	})
}

// TestSumsOfProduct: a product of the first terms, continued by one of the others in place, has the
// bits of the whole.
func TestSumsOfProduct(t *testing.T) {
	backends(t, func(t *testing.T) {
		eachGrainCase(t, func(t *testing.T, g *Gemm[float32]) {
			whole := g.of(func(*Gemm[float32]) {})
			for at := Grain; at < g.K; at += Grain {
				first := g.of(func(p *Gemm[float32]) { p.K = at })
				behind := func(p *Gemm[float32]) {
					p.K, p.A, p.B = g.K-at, p.A[place(p.TransA, 0, at, p.LDA):], p.B[place(p.TransB, at, 0, p.LDB):]
				}
				both := g.of(func(p *Gemm[float32]) {
					p.C, p.Beta = slices.Clone(first), 1
					behind(p)
				})
				require.True(t, slices.Equal(whole, both), "terms from %d on", at)
			}
		})
	})
}

// called is a call of the library.
type called struct {
	ta, tb  bool
	m, n, k int
	beta    float32
	at      int // in C
}

// calls returns those of a product.
func calls(t *testing.T, g *Gemm[float32]) (list []called) {
	best := active()
	defer func() { chosen = best }()
	chosen = &backend{sgemm: func(ta, tb bool, m, n, k int, _ float32, _ []float32, _ int, _ []float32, _ int,
		beta float32, c []float32, _ int) {
		list = append(list, called{ta, tb, m, n, k, beta, len(g.C) - len(c)})
	}}
	tiles, grain := g.Plan()
	assert.Positive(t, grain)
	g.Range(0, tiles)
	return list
}

// TestCallsOfProduct: parts make the calls of the whole, so that no library can tell the difference:
// the bands of a product one after the other, or its batch; and the blocks of its sums.
func TestCallsOfProduct(t *testing.T) {
	for _, s := range grainShapes {
		g := wavy(false, true, s, 2, 0.5)
		whole := calls(t, g)
		var parts []called
		for i := range 2 {
			for from := 0; from < g.M; from += Grain {
				part := *g
				part.M, part.Batch = min(Grain, g.M-from), nil
				for _, c := range calls(t, &part) {
					c.at += len(part.C) - len(g.C) + (i*g.M+from)*g.N
					parts = append(parts, c)
				}
			}
		}
		assert.Equal(t, whole, parts, "rows of %v", s)
		var sums []called
		for from := 0; from < g.K; from += Grain {
			part := *g
			if part.K = min(Grain, g.K-from); from > 0 {
				part.Beta = 1
			}
			sums = append(sums, calls(t, &part)...)
		}
		assert.ElementsMatch(t, whole, sums, "sums of %v", s)
	}
}

// TestTiles: tiles of a band cover its columns once, however few rows it has.
func TestTiles(t *testing.T) {
	for _, m := range []int{1, 7, 64, 191, 192, 193, 400, 768} {
		for _, n := range []int{1, 31, 128, 255, 256, 512, 513, 1000, 1025, 4097, 50257} {
			g := &Gemm[float32]{M: m, N: n, K: 5}
			tiles, _ := g.Plan()
			row, col := 0, 0
			for i := range tiles {
				x := g.Tile(i)
				require.Equal(t, [2]int{row, col}, [2]int{x.Row, x.Col}, "%d×%d, tile %d of %d", m, n, i, tiles)
				require.Positive(t, x.Cols)
				require.Equal(t, min(Grain, m-row), x.Rows)
				if col += x.Cols; col == n {
					row, col = row+x.Rows, 0
				}
			}
			require.Equal(t, [2]int{m, 0}, [2]int{row, col})
		}
	}
}
