package dnnl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dense is a problem with operands in the order of ONNX.
func dense(d Direction, n, c, m int, in, kernel, stride, dilation, begin, end [2]int) Problem {
	p := Problem{Direction: d, N: n, C: c, M: m, In: in, Kernel: kernel, Stride: stride, Dilation: dilation,
		Begin: begin}
	for i := range p.Out {
		p.Out[i] = (in[i]+begin[i]+end[i]-(kernel[i]-1)*dilation[i]-1)/stride[i] + 1
	}
	p.X = Strides{c * p.plane(opX), p.plane(opX)}
	p.W = Strides{c * p.plane(opW), p.plane(opW)}
	p.Y = Strides{m * p.plane(opY), p.plane(opY)}
	return p
}

// swapped gives the operands' first two axes the other order in memory.
func swapped(p Problem) Problem {
	p.X = Strides{p.plane(opX), p.N * p.plane(opX)}
	p.W = Strides{p.plane(opW), p.M * p.plane(opW)}
	p.Y = Strides{p.plane(opY), p.N * p.plane(opY)}
	return p
}

func two(n int) [2]int { return [2]int{n, n} }

// problems are of all three directions; each has what the others lack.
func problems() map[string]Problem {
	list := map[string]Problem{}
	for name, p := range map[string]Problem{
		"3x3":                dense(0, 4, 64, 64, two(12), two(3), two(1), two(1), two(1), two(1)),
		"uneven channels":    dense(0, 3, 50, 75, [2]int{17, 11}, two(3), two(1), two(1), two(1), two(1)),
		"stride":             dense(0, 2, 32, 48, [2]int{30, 27}, two(3), two(2), two(1), two(1), two(1)),
		"stride that leaves": dense(0, 3, 64, 64, [2]int{30, 31}, two(3), two(2), two(1), [2]int{0, 1}, two(0)),
		"dilation":           dense(0, 4, 32, 48, two(16), [2]int{3, 2}, two(1), [2]int{2, 3}, two(2), two(2)),
		"5x3, uneven pads": dense(0, 2, 32, 32, [2]int{14, 19}, [2]int{5, 3}, two(1), two(1), [2]int{1, 2},
			[2]int{3, 0}),
		"one axis": dense(0, 4, 64, 64, [2]int{1, 90}, [2]int{1, 5}, two(1), two(1), [2]int{0, 2},
			[2]int{0, 2}),
		"pointwise":             dense(0, 2, 64, 160, two(20), two(1), two(1), two(1), two(0), two(0)),
		"many images":           dense(0, 70, 16, 16, two(48), two(1), two(1), two(1), two(0), two(0)),
		"one image, few pieces": dense(0, 1, 48, 32, two(40), two(3), two(1), two(1), two(1), two(1)),
		"many channels":         dense(0, 2, 300, 270, two(5), two(3), two(1), two(1), two(1), two(1)),
		"other order":           swapped(dense(0, 5, 48, 80, two(11), two(3), two(2), two(1), two(1), two(1))),
	} {
		for d, dir := range []string{"forward", "data", "weights"} {
			p.Direction = Direction(d)
			list[name+", "+dir] = p
		}
	}
	list["image, forward"] = dense(Forward, 2, 3, 64, two(60), two(7), two(2), two(1), two(3), two(3))
	list["image, weights"] = dense(BackwardWeights, 2, 3, 64, two(60), two(7), two(2), two(1), two(3), two(3))
	return list
}

// TestConv compares each direction with plain sums, and the bits of one slot with those of three.
func TestConv(t *testing.T) {
	needLibrary(t)
	for name, p := range problems() {
		t.Run(name, func(t *testing.T) {
			if name == "dilation, weights" && !FastProducts() {
				// Without AVX-512 the library has no dedicated kernel, and New leaves the problem
				// to memopt's.
				_, err := New(p, 1)
				require.ErrorContains(t, err, "oneDNN has only")
				return
			}
			r := roles[p.Direction]
			a, b := numbers(p.length(r.in[0]), 1), numbers(p.length(r.in[1]), 2)
			got := compute(t, p, 1, a, b)
			want, size := plain(&p, a, b)
			for i, v := range want {
				if math.Abs(float64(got[i])-v) > 2e-6*size[i]+1e-30 {
					t.Fatalf("element %d is %g, wanted %g", i, got[i], v)
				}
			}
			if !slices.Equal(got, compute(t, p, 3, a, b)) {
				t.Fatal("other bits with three slots")
			}
		})
	}
}

// compute solves a problem with the given number of slots, each in a goroutine of its own, and
// checks that nothing else is written.
func compute(t *testing.T, p Problem, slots int, a, b []float32) []float32 {
	t.Helper()
	k, err := New(p, slots)
	require.NoError(t, err)
	const guard = 1e30
	work := aligned(k.Workspace() + 16)
	out := slices.Repeat([]float32{guard}, p.length(roles[p.Direction].out)+16)
	for _, s := range [][]float32{work[k.Workspace():], work} {
		for i := range s {
			s[i] = guard
		}
	}
	for round := range k.Rounds() {
		spread(k.Packs(round), slots, func(i, slot int) { k.Pack(round, i, slot, a, b, work[:k.Workspace()]) })
		spread(k.Pieces(round), slots, func(i, slot int) {
			k.Piece(round, i, slot, out[:len(out)-16], work[:k.Workspace()])
		})
	}
	assert.Equal(t, slices.Repeat([]float32{guard}, 16), out[len(out)-16:], "behind the output")
	assert.Equal(t, slices.Repeat([]float32{guard}, 16), work[k.Workspace():], "behind the workspace")
	return out[:len(out)-16]
}

// spread does the items 0..n-1 in slots, each item in any.
func spread(n, slots int, do func(i, slot int)) {
	items := make(chan int, n)
	for i := range n {
		items <- i
	}
	close(items)
	var wg sync.WaitGroup
	for slot := range slots {
		wg.Go(func() {
			for i := range items {
				do(i, slot)
			}
		})
	}
	wg.Wait()
}

// aligned returns memory that starts at a multiple of 64 bytes.
func aligned(n int) []float32 {
	s := make([]float32, n+16)
	for i := range s {
		if addressOf(&s[i])%64 == 0 {
			return s[i : i+n]
		}
	}
	panic("floats lie at odd addresses")
}

func numbers(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := make([]float32, n)
	for i := range s {
		s[i] = 2*rng.Float32() - 1
	}
	return s
}

// plain computes a problem by its definition, and the sums of the terms' sizes. Elements of
// the output that no term belongs to are 0.
func plain(p *Problem, a, b []float32) (sum, size []float64) {
	r := roles[p.Direction]
	n := p.length(r.out)
	sum, size = make([]float64, n), make([]float64, n)
	var at [3]int
	eachTerm(p, func(x, w, y int) {
		at = [3]int{x, w, y}
		v := float64(a[at[r.in[0]]]) * float64(b[at[r.in[1]]])
		sum[at[r.out]] += v
		size[at[r.out]] += math.Abs(v)
	})
	return sum, size
}

// eachTerm calls f with the places of the three operands of every product of the sum.
func eachTerm(p *Problem, f func(x, w, y int)) {
	for n := range p.N {
		for c := range p.C {
			for m := range p.M {
				for i := range p.plane(opW) {
					kh, kw := i/p.Kernel[1], i%p.Kernel[1]
					for o := range p.plane(opY) {
						h := o/p.Out[1]*p.Stride[0] - p.Begin[0] + kh*p.Dilation[0]
						w := o%p.Out[1]*p.Stride[1] - p.Begin[1] + kw*p.Dilation[1]
						if h >= 0 && h < p.In[0] && w >= 0 && w < p.In[1] {
							f(n*p.X.Outer+c*p.X.Inner+h*p.In[1]+w, m*p.W.Outer+c*p.W.Inner+i, n*p.Y.Outer+m*p.Y.Inner+o)
						}
					}
				}
			}
		}
	}
}

// TestDeclined: New declines what has no fast implementation, and says why.
func TestDeclined(t *testing.T) {
	needLibrary(t)
	_, err := New(dense(Forward, 1, 16, 16, two(8), two(3), two(1), two(1), two(1), two(1)), 1)
	assert.ErrorContains(t, err, "small")
	_, err = New(dense(BackwardData, 3, 64, 64, [2]int{30, 31}, two(3), two(3), two(1), [2]int{0, 1}, two(0)), 1)
	assert.ErrorContains(t, err, "oneDNN")
}

// TestCut: pieces cover a problem once, are enough for several threads, and keep to the bounds of
// memory.
func TestCut(t *testing.T) {
	for name, p := range problems() {
		t.Run(name, func(t *testing.T) {
			axes, round := p.cut()
			pieces := 1
			for a, list := range axes {
				at := 0
				for i := range list.len() {
					s := list.at(i)
					require.Equal(t, at, s.From)
					require.Positive(t, s.N)
					at += s.N
				}
				require.Equal(t, p.size(axis(a)), at)
				if p.Direction != BackwardWeights || axis(a) != axisN {
					pieces *= list.len()
				}
			}
			require.Positive(t, round)
			r := roles[p.Direction]
			most := 1
			for _, a := range axesOf[r.out] {
				if a == axisN {
					most *= p.N
				} else {
					most *= ceil(p.size(a), block)
				}
			}
			assert.GreaterOrEqual(t, pieces, min(fewPieces, most), "of %v", axes)
			for _, o := range r.in {
				if n := axes[axisN]; axesOf[o][0] == axisN && round < n.len() {
					assert.LessOrEqual(t, 4*n.at(0).N*round*p.size(axesOf[o][1])*p.plane(o), roundBytes)
				}
			}
		})
	}
}

func needLibrary(t *testing.T) {
	if !Available() {
		t.Skipf("oneDNN is missing (%s): Debian's libdnnl2 has it", Name())
	}
}

// TestOpenLibrary: the environment chooses the library.
func TestOpenLibrary(t *testing.T) {
	t.Setenv("MEMOPT_DNNL", "off")
	name, err := openLibrary()
	require.NoError(t, err)
	assert.Empty(t, name)
	if !Available() {
		return
	}
	t.Setenv("MEMOPT_DNNL", "/nowhere/libdnnl.so")
	_, err = openLibrary()
	assert.ErrorContains(t, err, "cannot open")
	t.Setenv("MEMOPT_DNNL", "libm.so.6")
	_, err = openLibrary()
	assert.ErrorContains(t, err, "dnnl_")
}

func BenchmarkConv(b *testing.B) {
	if !Available() {
		b.Skip(Name())
	}
	for _, s := range []struct{ c, m, k, stride, size int }{{64, 64, 3, 1, 56}, {128, 128, 3, 1, 28},
		{256, 256, 3, 1, 14}, {512, 512, 3, 1, 7}, {64, 128, 3, 2, 56}} {
		for d := range Direction(3) {
			b.Run(fmt.Sprint(s, d), func(b *testing.B) {
				p := dense(d, 4, s.c, s.m, two(s.size), two(s.k), two(s.stride), two(1), two(s.k/2), two(s.k/2))
				r := roles[d]
				k, err := New(p, 1)
				require.NoError(b, err)
				x, y, out, work := numbers(p.length(r.in[0]), 1), numbers(p.length(r.in[1]), 2),
					make([]float32, p.length(r.out)), aligned(k.Workspace())
				for b.Loop() {
					for round := range k.Rounds() {
						for i := range k.Packs(round) {
							k.Pack(round, i, 0, x, y, work)
						}
						for i := range k.Pieces(round) {
							k.Piece(round, i, 0, out, work)
						}
					}
				}
				b.ReportMetric(2*float64(p.multiplications())*float64(b.N)/b.Elapsed().Seconds()*1e-9, "GFLOP/s")
				b.ReportMetric(float64(4*k.Workspace())/(1<<20), "MiB")
			})
		}
	}
}

func addressOf(p *float32) uintptr { return uintptr(unsafe.Pointer(p)) }

// TestStretches: an axis of any length is cut without a list, and parts of it are stretches of the whole.
func TestStretches(t *testing.T) {
	s := spans(10, 4)
	require.Equal(t, 3, s.len())
	require.Equal(t, []Span{{0, 4}, {4, 4}, {8, 2}}, []Span{s.at(0), s.at(1), s.at(2)})
	last := s.part(1, 5)
	require.Equal(t, 2, last.len())
	require.Equal(t, []Span{{4, 4}, {8, 2}}, []Span{last.at(0), last.at(1)})
	require.Equal(t, 1, s.part(0, 1).len())
	images := spans(1<<40, 1)
	require.Equal(t, 1<<40, images.len())
	require.Equal(t, Span{1<<40 - 1, 1}, images.part(1<<39, 1<<40).at(1<<39-1))
}
