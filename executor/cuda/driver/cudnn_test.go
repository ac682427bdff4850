package driver

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	_ "memopt/internal/test/rapidflags"
)

// drawCase draws a small case whose Out is right.
func drawCase(t *rapid.T, axes int) ConvCase {
	c := ConvCase{Kind: ConvKind(rapid.IntRange(0, 2).Draw(t, "kind")), TF32: rapid.Bool().Draw(t, "tf32"), Axes: axes,
		Groups: rapid.IntRange(1, 2).Draw(t, "groups"),
		N:      rapid.IntRange(1, 2).Draw(t, "n"), In: [3]int{1, 1, 1}, Out: [3]int{1, 1, 1}, Kernel: [3]int{1, 1, 1},
		Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}}
	c.C, c.M = c.Groups*rapid.IntRange(1, 2).Draw(t, "c"), c.Groups*rapid.IntRange(1, 2).Draw(t, "m")
	for i := 3 - axes; i < 3; i++ {
		c.Kernel[i], c.Dilation[i] = rapid.IntRange(1, 3).Draw(t, "kernel"), rapid.IntRange(1, 2).Draw(t, "dilation")
		c.Stride[i], c.Pad[i] = rapid.IntRange(1, 3).Draw(t, "stride"), rapid.IntRange(0, 1).Draw(t, "pad")
		c.In[i] = (c.Kernel[i]-1)*c.Dilation[i] + rapid.IntRange(1, 3).Draw(t, "in")
		c.Out[i] = c.Places(i)
	}
	return c
}

// direct computes a case by its definition, on small integers, of which all sums are exact.
func direct(c *ConvCase, x, w, y []float32) {
	clear(map[ConvKind][]float32{ConvForward: y, ConvData: x, ConvFilter: w}[c.Kind])
	cg, mg := c.C/c.Groups, c.M/c.Groups
	each := func(n [3]int, do func(i [3]int, at int)) {
		for a := range n[0] {
			for b := range n[1] {
				for d := range n[2] {
					do([3]int{a, b, d}, (a*n[1]+b)*n[2]+d)
				}
			}
		}
	}
	volume := func(n [3]int) int { return n[0] * n[1] * n[2] }
	for n := range c.N {
		for m := range c.M {
			for k := range cg {
				each(c.Out, func(o [3]int, place int) {
					each(c.Kernel, func(tap [3]int, t int) {
						at := (n*c.C + m/mg*cg + k)
						for i := range 3 {
							v := o[i]*c.Stride[i] - c.Pad[i] + tap[i]*c.Dilation[i]
							if v < 0 || v >= c.In[i] {
								return
							}
							at = at*c.In[i] + v
						}
						wi, yi := (m*cg+k)*volume(c.Kernel)+t, (n*c.M+m)*volume(c.Out)+place
						switch c.Kind {
						case ConvForward:
							y[yi] += x[at] * w[wi]
						case ConvData:
							x[at] += y[yi] * w[wi]
						case ConvFilter:
							w[wi] += y[yi] * x[at]
						}
					})
				})
			}
		}
	}
}

// onDevice copies floats to the device.
func onDevice(t require.TestingT, d Driver, s Stream, x []float32) []byte {
	b, err := d.Alloc(4 * len(x))
	require.NoError(t, err)
	require.NoError(t, d.CopyIn(s, b, executor.Memory(x)))
	return b
}

// TestConvolve: all kinds of convolutions, planes and volumes, reach the library with their
// arguments in their places, by the algorithm and with the workspace that were asked for.
func TestConvolve(t *testing.T) {
	_, get := fake(t)
	require.EqualValues(t, 48, unsafe.Sizeof(convPerf{}), "as C pads the struct")
	d, s := opened(t)
	rapid.Check(t, func(t *rapid.T) {
		c := &Conv{ConvCase: drawCase(t, rapid.IntRange(2, 3).Draw(t, "axes"))}
		nx, nw, ny := c.Lens()
		host := [3][]float32{make([]float32, nx), make([]float32, nw), make([]float32, ny)}
		for i, h := range host {
			for j := range h {
				h[j] = float32((j*7+i)%5) - 2
			}
		}
		for i, to := range []*[]byte{&c.X, &c.W, &c.Y} {
			*to = onDevice(t, d, s, host[i])
			defer d.Free(*to)
		}
		how := ConvSearch(rapid.IntRange(0, 2).Draw(t, "search"))
		room, err := d.Alloc(64 * 3)
		require.NoError(t, err)
		defer d.Free(room)
		find := *c
		find.Workspace = room
		list, err := d.ConvAlgos(s, &find, how)
		require.NoError(t, err)
		for _, a := range list {
			require.True(t, c.TF32 || a.Math == mathFMA, "%+v", a)
			require.Equal(t, 64*a.Number, a.Workspace)
			require.Equal(t, a.Number > 0 || c.Kind == ConvForward, a.Deterministic)
		}
		// The exhaustive search has overwritten the result.
		result := [3]int{ConvForward: 2, ConvData: 0, ConvFilter: 1}[c.Kind]
		c.Algo = list[rapid.IntRange(0, len(list)-1).Draw(t, "algo")]
		c.Workspace = room[:c.Algo.Workspace]
		require.NoError(t, d.Convolve(s, c))
		require.Equal(t, c.Algo.Workspace, get(fakeDNNWorkspace))
		require.Equal(t, c.Algo.Math, get(fakeDNNMath))
		direct(&c.ConvCase, host[0], host[1], host[2])
		got := make([]float32, len(host[result]))
		require.NoError(t, d.CopyOut(s, executor.Memory(got), [][]byte{c.X, c.W, c.Y}[result]))
		require.Equal(t, host[result], got)
	})
	require.NoError(t, d.Close())
	require.Zero(t, get(fakeDNNLive), "descriptors are given back")
}

// plainCase is a case that a test needs one of.
func plainCase() *Conv {
	one := [3]int{1, 1, 1}
	return &Conv{
		ConvCase: ConvCase{N: 1, C: 1, M: 1, Groups: 1, Axes: 2, In: [3]int{1, 2, 2}, Out: [3]int{1, 2, 2}, Kernel: one,
			Stride: one, Dilation: one},
	}
}

// TestConvAlgos: the searches differ in what they list and in what order; precisions follow the
// types.
func TestConvAlgos(t *testing.T) {
	_, get := fake(t)
	d, s := opened(t)
	numbers := func(c *Conv, how ConvSearch) (n []int) {
		list, err := d.ConvAlgos(s, c, how)
		require.NoError(t, err)
		for _, a := range list {
			n = append(n, a.Number)
		}
		return n
	}
	c := plainCase()
	require.Equal(t, []int{0, 3}, numbers(c, SearchHeuristic), "1 does not work, 2 rounds operands")
	require.Equal(t, []int{1}, numbers(c, SearchDefault))
	c.TF32 = true
	require.Equal(t, []int{0, 2, 3}, numbers(c, SearchHeuristic))
	require.Equal(t, mathDefault, get(fakeDNNMath))
	for _, e := range []Elem{F16, BF16} {
		c.Elem = e
		require.Equal(t, []int{0, 2, 3}, numbers(c, SearchHeuristic))
		require.Equal(t, mathTensorOp, get(fakeDNNMath))
	}
	c = plainCase()
	memory, err := d.Alloc(3*16 + 128)
	require.NoError(t, err)
	defer d.Free(memory)
	c.X, c.W, c.Y, c.Workspace = memory[:16], memory[16:20], memory[32:48], memory[48:]
	require.Equal(t, []int{2, 1, 0}, numbers(c, SearchExhaustive), "fastest first; 3 needs 192 bytes")
}

// TestConvErrors: what fails is named; what the library does not offer is told from faults.
func TestConvErrors(t *testing.T) {
	set, _ := fake(t)
	refused := (*Refused)(nil)
	for _, c := range []struct {
		version, unsupported, failed int
		name                         string
	}{{90100, 3000, 5000, "9.1.0"}, {8902, 9, 8, "8.9.2"}} {
		set(fakeDNNVersion, c.version)
		d, s := opened(t)
		fail := func(code int) { set(fakeFailCall, failDNN); set(fakeFailCode, code) }
		_, err := d.ConvAlgos(s, plainCase(), SearchHeuristic)
		require.NoError(t, err)
		fail(c.unsupported)
		_, err = d.ConvAlgos(s, plainCase(), SearchHeuristic)
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "cudnnGetConvolutionForwardAlgorithm_v7: CUDNN_STATUS_NOT_SUPPORTED")
		require.ErrorContains(t, err, "of cuDNN "+c.name)
		fail(c.failed)
		_, err = d.ConvAlgos(s, plainCase(), SearchHeuristic)
		require.NotErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "CUDNN_STATUS_EXECUTION_FAILED")
		fail(1)
		_, err = d.ConvAlgos(s, plainCase(), SearchHeuristic)
		require.ErrorContains(t, err, "an unknown status (1)")
		set(fakeFailCall, 0)
		large := plainCase()
		large.N, large.In[1] = 1<<20, 1<<10
		_, err = d.ConvAlgos(s, large, SearchHeuristic)
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "less than 2^31 elements")
		wrong := plainCase()
		wrong.Out[2] = 3
		_, err = d.ConvAlgos(s, wrong, SearchHeuristic)
		require.ErrorAs(t, err, &refused)
		wrong = plainCase()
		wrong.Algo.Workspace = 64
		require.ErrorContains(t, d.Convolve(s, wrong), "needs a workspace of 64 bytes and is given 0")
		wrong.Algo.Workspace = 0
		require.ErrorContains(t, d.Convolve(s, wrong), "operands of 16, 4 and 16 bytes is given 0, 0 and 0")
		_, err = d.ConvAlgos(s, wrong, SearchExhaustive)
		require.ErrorContains(t, err, "is given 0, 0 and 0")
	}
}

// TestNoCuDNN: a library that is not there, too old, or lacking a function, is told in one line
// that says what is wanted.
func TestNoCuDNN(t *testing.T) {
	set, _ := fake(t)
	without := compileFake("-DWITHOUT_FIND")
	defer os.RemoveAll(filepath.Dir(without))
	for _, c := range []struct {
		file    string
		version int
		want    string
	}{
		{fakeLibrary(), 7605, "libcudnn is too old: it has version 7.6.5; version 8.0 or later is wanted"},
		{"/nowhere/libcudnn.so", 90100, "MEMOPT_CUDNN may name the file"},
		{without, 90100,
			"libcudnn of version 9.1.0 lacks cudnnFindConvolutionForwardAlgorithmEx; version 8 or 9 is wanted"},
	} {
		t.Setenv("MEMOPT_CUDNN", c.file)
		set(fakeDNNVersion, c.version)
		d, s := opened(t)
		missing := (*Missing)(nil)
		for range 2 {
			_, err := d.ConvAlgos(s, plainCase(), SearchHeuristic)
			require.ErrorAs(t, err, &missing)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			require.ErrorAs(t, d.Convolve(s, plainCase()), &missing)
		}
	}
	t.Setenv("MEMOPT_CUDNN", fakeLibrary())
	set(fakeDNNVersion, 90100)
	set(fakeFailCall, failDNN)
	set(fakeFailCode, 5000)
	d, s := opened(t)
	_, err := d.ConvAlgos(s, plainCase(), SearchHeuristic)
	require.ErrorContains(t, err, "cudnnCreate: CUDNN_STATUS_EXECUTION_FAILED (5000)")
	set(fakeFailCall, 0)
}

// TestConvolveAllocatesNothing: running a case again allocates nothing on Go's heap.
func TestConvolveAllocatesNothing(t *testing.T) {
	fake(t)
	d, s := opened(t)
	b, err := d.Alloc(256)
	require.NoError(t, err)
	defer d.Free(b)
	c := plainCase()
	c.X, c.W, c.Y = b[:16], b[16:20], b[32:48]
	c.Algo.Math = mathFMA
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if d.Convolve(s, c) != nil {
			t.Fail()
		}
	}))
}
