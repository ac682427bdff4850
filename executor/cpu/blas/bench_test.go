package blas

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkGemm reports GFLOP/s on all threads.
func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct {
		m, n, k, batch int
		ta, tb         bool
	}{
		{1024, 1024, 1024, 1, false, false},
		{2048, 1024, 256, 1, false, false},
		{2048, 256, 1024, 1, false, true},
		{2048, 8192, 256, 1, false, false},
		{256, 1024, 2048, 1, true, false},
		{256, 256, 64, 32, false, true},
		{64, 64, 64, 512, false, false},
	} {
		b.Run(fmt.Sprintf("%dx%dx%dx%d", s.batch, s.m, s.n, s.k), func(b *testing.B) {
			x := newMatrix[float32](s.ta, s.m, s.k, 0, 1)
			y := newMatrix[float32](s.tb, s.k, s.n, 0, 2)
			g := &Gemm[float32]{TransA: s.ta, TransB: s.tb, M: s.m, N: s.n, K: s.k, Alpha: 1,
				A: x.data, LDA: x.ld, B: y.data, LDB: y.ld, C: make([]float32, s.batch*s.m*s.n), LDC: s.n}
			for i := range s.batch {
				g.Batch = append(g.Batch, Place{C: i * s.m * s.n})
			}
			for b.Loop() {
				tiles, grain := g.Plan()
				inParallel(runtime.GOMAXPROCS(0), tiles, grain, g)
			}
			flops := 2 * float64(s.m) * float64(s.n) * float64(s.k) * float64(s.batch) * float64(b.N)
			b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
