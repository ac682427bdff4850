package blas

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/executor/cpu/dnnl"
)

// backends runs a test with every backend that the machine has.
func backends(t *testing.T, f func(t *testing.T)) {
	best := active()
	defer func() { chosen = best }()
	t.Run("gonum", func(t *testing.T) {
		chosen = newGonum(nil)
		f(t)
	})
	t.Run("OpenBLAS", func(t *testing.T) {
		if chosen, _ = openLibrary(); chosen == nil {
			t.Skip("no library: apt-get install libopenblas0 brings OpenBLAS")
		}
		f(t)
	})
	t.Run("oneDNN", func(t *testing.T) {
		if !dnnl.Available() {
			t.Skip("no library: apt-get install libdnnl2 brings oneDNN")
		}
		chosen = withOneDNN(newGonum(nil))
		f(t)
	})
}

// matrix is an operand with its surroundings in memory.
type matrix[T Float] struct {
	rows, cols, ld int
	data           []T
}

// newMatrix fills a matrix with small numbers; ld exceeds the columns by extra.
func newMatrix[T Float](trans bool, rows, cols, extra, seed int) matrix[T] {
	if trans {
		rows, cols = cols, rows
	}
	m := matrix[T]{rows, cols, max(cols+extra, 1), make([]T, rows*(cols+extra))}
	for i := range m.data {
		m.data[i] = T((i*7+seed*3)%11) - 5 + T((i+seed)%3)/8
	}
	return m
}

// naive computes the product in float64.
func naive[T Float](ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	for i := range m {
		for j := range n {
			var sum float64
			if alpha != 0 {
				for l := range k {
					sum += float64(a[place(ta, i, l, lda)]) * float64(b[place(tb, l, j, ldb)])
				}
				sum *= float64(alpha)
			}
			if beta != 0 {
				sum += float64(beta) * float64(c[i*ldc+j])
			}
			c[i*ldc+j] = T(sum)
		}
	}
}

func TestAgainstNaive(t *testing.T) {
	backends(t, func(t *testing.T) {
		againstNaive[float32](t, 1e-4)
		againstNaive[float64](t, 1e-12)
	})
}

func againstNaive[T Float](t *testing.T, tol float64) {
	sizes := [][3]int{{1, 1, 1}, {2, 3, 4}, {7, 1, 5}, {1, 9, 3}, {17, 33, 65}, {70, 200, 300}, {0, 3, 2},
		{3, 0, 2}, {3, 2, 0}}
	for _, s := range sizes {
		for _, scalars := range [][2]T{{1, 0}, {1, 1}, {0.5, -2}, {0, 0}, {0, 3}, {-1, 0.25}} {
			for bits := range 8 {
				oneProduct(t, bits&1 != 0, bits&2 != 0, s[0], s[1], s[2], 3*(bits>>2), scalars[0], scalars[1], tol)
			}
		}
	}
}

func oneProduct[T Float](t *testing.T, ta, tb bool, m, n, k, extra int, alpha, beta T, tol float64) {
	a, b := newMatrix[T](ta, m, k, extra, 1), newMatrix[T](tb, k, n, extra, 2)
	got, want := newMatrix[T](false, m, n, extra, 3), newMatrix[T](false, m, n, extra, 3)
	if beta == 0 && extra == 0 {
		for i := range got.data {
			got.data[i] = T(math.NaN()) // must not be read
		}
	}
	Multiply(ta, tb, m, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, got.data, got.ld)
	naive(ta, tb, m, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, want.data, want.ld)
	for i := range want.data {
		g, w := float64(got.data[i]), float64(want.data[i])
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))*math.Sqrt(float64(k+1))) {
			t.Fatalf("%T %dx%dx%d trans %v %v extra %d alpha %v beta %v: element %d is %v, wanted %v",
				alpha, m, n, k, ta, tb, extra, alpha, beta, i, g, w)
		}
	}
}

// Zeros do not hide infinities and NaN.
func TestNonFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	backends(t, func(t *testing.T) {
		for _, n := range []int{1, 5, 40} {
			for bits := range 4 {
				ta, tb := bits&1 != 0, bits&2 != 0
				a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
				b[place(tb, n-1, 0, n)] = inf
				Sgemm(ta, tb, n, n, n, 1, a, n, b, n, 0, c, n)
				assert.True(t, math.IsNaN(float64(c[0])), "0*Inf is %v", c[0])
				p := make([]float32, n*n)
				p[place(ta, n-1, 0, n)] = nan
				Sgemm(ta, tb, n, n, n, 1, p, n, a, n, 0, c, n)
				assert.True(t, math.IsNaN(float64(c[(n-1)*n])), "NaN*0 is %v", c[(n-1)*n])
				c[0] = nan
				Sgemm(ta, tb, n, n, n, 1, a, n, a, n, 0, c, n)
				assert.Zero(t, c[0], "beta 0 reads C")
			}
		}
	})
}

func TestMisuse(t *testing.T) {
	x := make([]float32, 6)
	assert.Panics(t, func() { Sgemm(false, false, 2, 2, 3, 1, x, 2, x, 2, 0, x, 2) }, "lda")
	assert.Panics(t, func() { Sgemm(false, false, 2, 2, 3, 1, x, 3, x[:5], 2, 0, x, 2) }, "b too short")
	assert.Panics(t, func() { Sgemm(false, false, 2, 2, 3, 1, x, 3, x, 2, 0, x[:3], 2) }, "c too short")
	assert.Panics(t, func() { Sgemm(false, false, -1, 2, 3, 1, x, 3, x, 2, 0, x, 2) }, "negative")
}

// A Gemm gives the same bits whenever and in whatever order its tiles run, and the numbers of a
// single product.
func TestGemm(t *testing.T) {
	backends(t, func(t *testing.T) {
		for _, s := range [][4]int{{300, 700, 64, 1}, {2048, 64, 100, 1}, {60, 70, 50, 40}, {200, 300, 20, 3},
			{0, 4, 4, 1}, {4, 4, 0, 2}, {300, 400, 0, 1}, {5, 5, 5, 0}} {
			for bits := range 4 {
				t.Run(fmt.Sprint(s, bits), func(t *testing.T) {
					checkGemm(t, s[0], s[1], s[2], s[3], bits&1 != 0, bits&2 != 0)
				})
			}
		}
	})
}

func checkGemm(t *testing.T, m, n, k, batch int, ta, tb bool) {
	a, b := newMatrix[float32](ta, m, k*batch, 0, 1), newMatrix[float32](tb, k, n, 2, 2)
	g := &Gemm[float32]{TransA: ta, TransB: tb, M: m, N: n, K: k, Alpha: 1, A: a.data, LDA: a.ld, B: b.data, LDB: b.ld,
		C: make([]float32, batch*m*n), LDC: max(n, 1), Batch: []Place{}}
	for i := range batch {
		g.Batch = append(g.Batch, Place{A: place(ta, 0, i*k, a.ld), C: i * m * n})
	}
	want := make([]float32, batch*m*n)
	for i := range batch {
		if len(want) > 0 {
			naive(ta, tb, m, n, k, 1, a.data[min(g.Batch[i].A, len(a.data)):], a.ld, b.data, b.ld, 0, want[i*m*n:], n)
		}
	}
	var first []float32
	for _, threads := range []int{1, 3, 8} {
		clear(g.C)
		tiles, grain := g.Plan()
		inParallel(threads, tiles, grain, g)
		for i, w := range want {
			if !(math.Abs(float64(g.C[i]-w)) <= 1e-2) {
				t.Fatalf("element %d is %v, wanted %v", i, g.C[i], w)
			}
		}
		if first == nil {
			first = slices.Clone(g.C)
		}
		require.True(t, slices.Equal(first, g.C), "other bits with %d threads", threads)
	}
	assert.Zero(t, testing.AllocsPerRun(3, func() {
		n, _ := g.Plan()
		g.Range(0, n)
	}))
}

// inParallel is the loop of executor.Pool.
func inParallel(threads, n, grain int, task interface{ Range(lo, hi int) }) {
	next := make(chan int, n)
	for lo := 0; lo < n; lo += grain {
		next <- lo
	}
	close(next)
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for lo := range next {
				task.Range(lo, min(lo+grain, n))
			}
		})
	}
	wg.Wait()
}

// The environment chooses the library.
func TestOpenLibrary(t *testing.T) {
	t.Setenv("MEMOPT_OPENBLAS", "off")
	b, err := openLibrary()
	require.NoError(t, err)
	assert.Nil(t, b)
	t.Setenv("MEMOPT_OPENBLAS", "/nowhere/libopenblas.so")
	b, err = openLibrary()
	assert.Nil(t, b)
	if !strings.HasSuffix(active().name, "gonum") {
		assert.ErrorContains(t, err, "cannot open")
		assert.Contains(t, newGonum(err).name, "cannot open")
	}
}

// A product has the same bits wherever its operands lie.
func TestAddresses(t *testing.T) {
	backends(t, func(t *testing.T) {
		for _, s := range [][3]int{{64, 64, 64}, {300, 257, 129}, {5, 2048, 300}, {2048, 5, 300}, {1, 500, 300},
			{500, 1, 300}, {40, 48, 4096}, {1000, 70, 16}} {
			for bits := range 4 {
				ta, tb := bits&1 != 0, bits&2 != 0
				a, b := newMatrix[float32](ta, s[0], s[2], 0, 1), newMatrix[float32](tb, s[2], s[1], 0, 2)
				for _, m := range []matrix[float32]{a, b} {
					for i := range m.data {
						m.data[i] = float32(math.Sin(float64(i))) // the order of a sum shows in its bits
					}
				}
				var want []float32
				for _, shift := range []int{0, 1, 5, 16} {
					c := make([]float32, s[0]*s[1]+shift)[shift:]
					Sgemm(ta, tb, s[0], s[1], s[2], 1, shifted(a.data, shift), a.ld, shifted(b.data, 2*shift),
						b.ld, 0, c, s[1])
					if want == nil {
						want = c
					}
					require.True(t, slices.Equal(want, c), "%v %t %t: other bits with a shift by %d", s, ta, tb, shift)
				}
			}
		}
	})
}

// shifted copies a slice to n elements past the start of a piece of memory.
func shifted(s []float32, n int) []float32 { return append(make([]float32, n, n+len(s)), s...)[n:] }

// Products run at the same time in many threads, including ones that OpenBLAS has not seen.
func TestConcurrent(t *testing.T) {
	backends(t, concurrent)
}

func concurrent(t *testing.T) {
	const n = 48
	a, b := newMatrix[float32](false, n, n, 0, 1), newMatrix[float32](false, n, n, 0, 2)
	want := make([]float32, n*n)
	Sgemm(false, false, n, n, n, 1, a.data, n, b.data, n, 0, want, n)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			c := make([]float32, n*n)
			for range 50 {
				Sgemm(false, false, n, n, n, 1, a.data, n, b.data, n, 0, c, n)
				if !slices.Equal(c, want) {
					t.Error("other bits in another thread")
					return
				}
			}
		})
	}
	wg.Wait()
}
