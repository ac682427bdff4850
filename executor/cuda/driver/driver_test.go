package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
)

// Numbers of fakecuda.c.
const (
	fakeVersion = iota
	fakeDevices
	fakeCapability
	fakeFailCall
	fakeFailCode
	fakeAllocated
	fakeContexts
	fakeResets
	_
	fakeGraphs
	fakeWorkspace
	fakeCompute
	fakeDNNVersion
	fakeDNNMath
	fakeDNNLive
	fakeDNNWorkspace
	fakeMade
)

const (
	failAlloc = iota + 1
	failLaunch
	failSync
	failLoad
	failGemm
	failInit
	failDNN
	failRetain
	failInfo
	failBLAS
)

// fakeLibrary compiles fakecuda.c and returns the library's path, "" without a compiler.
var fakeLibrary = sync.OnceValue(func() string { return compileFake() })

// compileFake compiles fakecuda.c with flags.
func compileFake(flags ...string) string {
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		return ""
	}
	path := filepath.Join(dir, "libfakecuda.so")
	for _, cc := range []string{"cc", "gcc", "clang-14", "clang"} {
		if _, err := exec.LookPath(cc); err != nil {
			continue
		}
		args := append([]string{"-shared", "-fPIC", "-O1", "-o", path, "testdata/fakecuda.c"}, flags...)
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%s does not compile the fake driver: %v\n%s", cc, err, out))
		}
		return path
	}
	return ""
}

func TestMain(m *testing.M) {
	code := m.Run()
	if path := fakeLibrary(); path != "" {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// fake makes the driver open the fake libraries, and returns functions that set and tell their
// state.
func fake(t testing.TB) (set func(what, value int), get func(what int) int) {
	path := fakeLibrary()
	if path == "" {
		t.Skip("a C compiler is missing, which makes the fake driver: apt-get install gcc")
	}
	for _, name := range []string{"MEMOPT_LIBCUDA", "MEMOPT_CUBLAS", "MEMOPT_CUDNN", "MEMOPT_NVML"} {
		t.Setenv(name, path)
	}
	lib, err := openLibrary([]string{path})
	if !opensLibraries {
		t.Skip("this build opens no C libraries: test on linux, amd64, without the build tag nodl")
	}
	require.NoError(t, err)
	fn := map[string]uintptr{}
	for _, name := range []string{"fake_set", "fake_get"} {
		fn[name], err = symbol(lib, name)
		require.NoError(t, err)
	}
	c := new(call)
	set = func(what, value int) { c.fn = fn["fake_set"]; c.do(uintptr(what), uintptr(value)) }
	get = func(what int) int { c.fn = fn["fake_get"]; return int(c.do(uintptr(what))) }
	t.Cleanup(func() {
		set(fakeFailCall, 0)
		set(fakeVersion, 12040)
		set(fakeDevices, 2)
		set(fakeCapability, 90)
		set(fakeDNNVersion, 90100)
	})
	return set, get
}

// opened opens fake device 1 with a stream.
func opened(t testing.TB) (Driver, Stream) {
	d, err := Open(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	s, err := d.NewStream()
	require.NoError(t, err)
	return d, s
}

// TestCalls: every call reaches the library with its arguments in their places, and its results
// come back.
func TestCalls(t *testing.T) {
	_, get := fake(t)
	d, s := opened(t)
	require.Equal(t, Info{Name: "fake 11", Ordinal: 1, Major: 9, Processors: 132, Memory: 80 << 30,
		DriverVersion: 12040, SharedPerBlock: 49152}, d.Info())
	free, total, err := d.MemInfo()
	require.NoError(t, err)
	require.Equal(t, [2]int64{7, 9}, [2]int64{free, total})
	used, ok := d.ProcessMemory()
	require.True(t, ok)
	require.Equal(t, int64(123456), used)

	a, err := d.Alloc(40)
	require.NoError(t, err)
	b, err := d.Alloc(40)
	require.NoError(t, err)
	x := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	require.NoError(t, d.CopyIn(s, a, executor.Memory(x)))
	require.NoError(t, d.Copy(s, b, a))
	require.NoError(t, d.Fill(s, a, 0xff))
	require.Error(t, d.Copy(s, b, a[:4]), "lengths differ")

	m, err := d.Load("fakes", []byte("ptx"))
	require.NoError(t, err)
	require.Equal(t, Module(3), m, "the image ends with a zero")
	f, err := d.Function(m, "bump")
	require.NoError(t, err)
	_, err = d.Function(m, "other")
	require.ErrorContains(t, err, "kernel other: cuModuleGetFunction: CUDA_ERROR_OTHER (500): a text")
	args := new(Args).Reset()
	args.Out(b)
	args.Int(10)
	args.Int32(100)
	require.NoError(t, d.Launch(f, Shape{Grid: [3]uint32{5, 2, 3}, Block: [3]uint32{2, 5, 6}, Shared: 77}, s, args))
	y := make([]int32, 10)
	require.NoError(t, d.CopyOut(s, executor.Memory(y), b))
	require.Equal(t, []int32{101, 102, 103, 104, 105, 106, 107, 108, 109, 110}, y)

	e, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, d.Record(e, s))
	require.NoError(t, d.Wait(s, e))
	ms, err := d.Elapsed(e, e)
	require.NoError(t, err)
	require.Equal(t, 2.5, ms)
	require.NoError(t, d.BeginCapture(s))
	g, err := d.EndCapture(s)
	require.NoError(t, err)
	require.NoError(t, d.Replay(g, s))
	require.NoError(t, d.FreeGraph(g))
	require.Zero(t, get(fakeGraphs), "graphs are given back")
	pinned, err := d.Pin(8)
	require.NoError(t, err)
	copy(pinned, "readable")
	require.NoError(t, d.CopyIn(s, a[:8], pinned))
	require.NoError(t, d.Unpin(pinned))
	require.NoError(t, d.Free(a))
	require.NoError(t, d.Free(b))
	require.Zero(t, get(fakeAllocated))
	require.NoError(t, d.Sync(s))
}

// TestLaunchAllocatesNothing: a launch and a product allocate nothing on Go's heap.
func TestLaunchAllocatesNothing(t *testing.T) {
	fake(t)
	d, s := opened(t)
	b, err := d.Alloc(256)
	require.NoError(t, err)
	defer d.Free(b)
	m, err := d.Load("fakes", []byte("ptx"))
	require.NoError(t, err)
	f, err := d.Function(m, "bump")
	require.NoError(t, err)
	args, shape := new(Args), Shape{Grid: [3]uint32{5, 2, 3}, Block: [3]uint32{2, 5, 6}, Shared: 77}
	g := &Gemm{M: 2, N: 2, K: 2, Alpha: 1, A: b, B: b, C: b[128:], LDA: 2, LDB: 2, LDC: 2, Batch: 1}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		a := args.Reset()
		a.Out(b)
		a.Int(10)
		a.Int32(1)
		if d.Launch(f, shape, s, a) != nil || d.Gemm(s, g) != nil {
			t.Fail()
		}
	}))
}

// TestGemm compares products by the library, which has matrices in columns, with sums over rows.
func TestGemm(t *testing.T) {
	_, get := fake(t)
	d, s := opened(t)
	const m, n, k, batch = 2, 3, 4, 2
	for _, c := range []struct{ ta, tb bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		g := &Gemm{TransA: c.ta, TransB: c.tb, M: m, N: n, K: k, Alpha: 2, Beta: 0.5, LDA: k, LDB: n, LDC: n,
			StrideA: m * k, StrideB: k * n, StrideC: m * n, Batch: batch, TF32: c.ta}
		if c.ta {
			g.LDA = m
		}
		if c.tb {
			g.LDB = k
		}
		sizes := []int{m * k * batch, k * n * batch, m * n * batch, 64}
		var host [3][]float32
		for i, to := range []*[]byte{&g.A, &g.B, &g.C, &g.Workspace} {
			b, err := d.Alloc(4 * sizes[i])
			require.NoError(t, err)
			defer d.Free(b)
			*to = b
			if i == 3 {
				continue
			}
			for j := range sizes[i] {
				host[i] = append(host[i], float32((j*7+i)%5)-1)
			}
			require.NoError(t, d.CopyIn(s, b, executor.Memory(host[i])))
		}
		require.NoError(t, d.Gemm(s, g))
		require.Equal(t, 256, get(fakeWorkspace))
		require.Equal(t, map[bool]int{false: 68, true: 77}[c.ta], get(fakeCompute))
		got := make([]float32, sizes[2])
		require.NoError(t, d.CopyOut(s, executor.Memory(got), g.C))
		for b := range batch {
			for i := range m {
				for j := range n {
					var sum float32
					for l := range k {
						x, y := i*k+l, l*n+j
						if c.ta {
							x = l*m + i
						}
						if c.tb {
							y = j*k + l
						}
						sum += host[0][b*m*k+x] * host[1][b*k*n+y]
					}
					at := b*m*n + i*n + j
					require.Equal(t, 2*sum+0.5*host[2][at], got[at], "%+v, %d", c, at)
				}
			}
		}
	}
}

// TestErrors: what fails is named, out of memory is told from the rest, and a lost context stays
// lost until another one is opened.
func TestErrors(t *testing.T) {
	set, get := fake(t)
	d, err := Open(0)
	require.NoError(t, err)
	fail := func(call, code int) { set(fakeFailCall, call); set(fakeFailCode, code) }
	fail(failAlloc, 2)
	_, err = d.Alloc(100)
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.ErrorContains(t, err, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)")
	fail(failLoad, 218)
	_, err = d.Load("unary_f32", []byte("x"))
	require.ErrorContains(t, err,
		"compiling the kernels of unary_f32 for fake 10: cuModuleLoadDataEx: CUDA_ERROR_OTHER (218): a text line 3: "+
			"no such instruction")
	fail(failGemm, 13)
	err = d.Gemm(5, &Gemm{M: 1, N: 1, Batch: 1})
	require.ErrorContains(t, err, "CUBLAS_STATUS_EXECUTION_FAILED (13)")

	fail(failSync, 700)
	err = d.Sync(5)
	cudaErr := (*Error)(nil)
	require.ErrorAs(t, err, &cudaErr)
	require.True(t, cudaErr.Sticky)
	require.Equal(t, "CUDA_ERROR_ILLEGAL_ADDRESS", cudaErr.Name)
	fail(0, 0)
	_, _, again := d.MemInfo()
	require.Equal(t, err, again, "the context is lost")
	resets := get(fakeResets)
	require.NoError(t, d.Close())
	require.Equal(t, resets+1, get(fakeResets))
	d, err = Open(0)
	require.NoError(t, err)
	_, _, err = d.MemInfo()
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.Zero(t, get(fakeContexts))
}

// TestMissing: what is not there is told in one line, as a *Missing.
func TestMissing(t *testing.T) {
	set, _ := fake(t)
	missing := (*Missing)(nil)
	for _, c := range []struct {
		what, value, ordinal int
		want                 string
	}{
		{fakeVersion, 11020, 0, "supports CUDA 11.2; 11.4 or later is wanted"},
		{fakeDevices, 0, 0, "CUDA device 0: there are 0 devices"},
		{fakeDevices, 2, 2, "CUDA device 2: there are 2 devices"},
		{fakeDevices, 2, -1, "CUDA device -1"},
		{fakeCapability, 61, 0, "has compute capability 6.1; 7.0 or later is wanted"},
	} {
		set(c.what, c.value)
		_, err := Open(c.ordinal)
		require.ErrorAs(t, err, &missing)
		require.ErrorContains(t, err, c.want)
		set(fakeVersion, 12040)
		set(fakeDevices, 2)
	}
	set(fakeCapability, 90)
	set(fakeFailCall, failInit)
	set(fakeFailCode, 100)
	_, err := Open(0)
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "the NVIDIA driver does not start: cuInit")
	t.Setenv("MEMOPT_LIBCUDA", "/nowhere/libcuda.so")
	_, err = Open(0)
	require.ErrorAs(t, err, &missing)
	require.NotContains(t, err.Error(), "\n")
	t.Setenv("MEMOPT_LIBCUDA", fakeLibrary())
	t.Setenv("MEMOPT_CUBLAS", "/nowhere/libcublas.so")
	d, s := opened(t)
	require.ErrorAs(t, d.Gemm(s, &Gemm{M: 1, N: 1, Batch: 1}), &missing)
	t.Setenv("MEMOPT_CUBLAS", "off")
	err = d.Gemm(s, &Gemm{M: 1, N: 1, Batch: 1})
	require.ErrorAs(t, err, &missing)
	require.EqualError(t, err, "libcublas is switched off by MEMOPT_CUBLAS=off")
}

// BenchmarkLaunch is what a launch costs besides the driver's own work: packing, a change of
// stacks, two calls.
func BenchmarkLaunch(b *testing.B) {
	fake(b)
	d, s := opened(b)
	mem, err := d.Alloc(256)
	require.NoError(b, err)
	defer d.Free(mem)
	m, err := d.Load("fakes", []byte("ptx"))
	require.NoError(b, err)
	f, err := d.Function(m, "bump")
	require.NoError(b, err)
	args, shape := new(Args), Shape{Grid: [3]uint32{5, 2, 3}, Block: [3]uint32{2, 5, 6}, Shared: 77}
	b.ReportAllocs()
	for b.Loop() {
		a := args.Reset()
		a.Out(mem)
		a.Int(10)
		a.Int32(1)
		if err := d.Launch(f, shape, s, a); err != nil {
			b.Fatal(err)
		}
	}
}
