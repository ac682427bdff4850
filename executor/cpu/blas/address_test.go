package blas

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestRandomAddresses: products of random shapes, vectors among them, have the same bits wherever
// their operands lie, also while other threads multiply.
func TestRandomAddresses(t *testing.T) {
	backends(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for seed := range uint64(6) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 9))
				for range 500 {
					if p := drawProduct(rng); !p.sameBits(rng) {
						t.Errorf("seed %d: %d×%d×%d, transposed %t %t: other bits at other addresses",
							seed, p.m, p.n, p.k, p.ta, p.tb)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// drawnProduct is a product of matrices without gaps between their rows.
type drawnProduct struct {
	m, n, k int
	ta, tb  bool
	a, b    []float32
}

func drawProduct(rng *rand.Rand) drawnProduct {
	p := drawnProduct{m: 1 + rng.IntN(70), n: 1 + rng.IntN(70), k: 1 + rng.IntN(200), ta: rng.IntN(2) == 0,
		tb: rng.IntN(2) == 0}
	switch rng.IntN(4) {
	case 0:
		p.m = 1
	case 1:
		p.n = 1
	}
	for range p.m * p.k {
		p.a = append(p.a, rng.Float32()-0.5)
	}
	for range p.k * p.n {
		p.b = append(p.b, rng.Float32()-0.5)
	}
	return p
}

// sameBits multiplies at four places.
func (p drawnProduct) sameBits(rng *rand.Rand) bool {
	lda, ldb := p.k, p.n
	if p.ta {
		lda = p.m
	}
	if p.tb {
		ldb = p.k
	}
	var want []float32
	for range 4 {
		c := shifted(make([]float32, p.m*p.n), rng.IntN(17))
		Sgemm(p.ta, p.tb, p.m, p.n, p.k, 1, shifted(p.a, rng.IntN(17)), lda, shifted(p.b, rng.IntN(17)), ldb, 0, c, p.n)
		if want == nil {
			want = c
		}
		if !slices.Equal(want, c) {
			return false
		}
	}
	return true
}
