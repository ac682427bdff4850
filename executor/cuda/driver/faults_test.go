package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
)

// TestNoContext: a device that cannot be used is missing, one without memory has none, and a
// context that a fault of this process has lost for good is told from both.
func TestNoContext(t *testing.T) {
	set, get := fake(t)
	missing := (*Missing)(nil)
	set(fakeFailCall, failRetain)
	set(fakeFailCode, 46)
	_, err := Open(0)
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err,
		"CUDA device 0 (fake 10) cannot be used: cuDevicePrimaryCtxRetain: CUDA_ERROR_OTHER (46)")
	set(fakeFailCall, failRetain)
	set(fakeFailCode, 2)
	_, err = Open(0)
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.Zero(t, get(fakeContexts))

	set(fakeFailCall, failInfo)
	set(fakeFailCode, 700)
	_, err = Open(0)
	require.ErrorContains(t, err, "start the program again: cuMemGetInfo_v2: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
	require.NotErrorAs(t, err, &missing)
	require.Zero(t, get(fakeContexts), "the context was given back")
}

// TestNoCompiler: a driver that cannot compile PTX lacks something, and one that finds a fault in
// it does not.
func TestNoCompiler(t *testing.T) {
	set, _ := fake(t)
	d, _ := opened(t)
	missing := (*Missing)(nil)
	for code, lacks := range map[int]bool{209: true, 221: true, 222: true, 223: true, 218: false} {
		set(fakeFailCall, failLoad)
		set(fakeFailCode, code)
		_, err := d.Load("fill", []byte("x"))
		require.ErrorContains(t, err, fmt.Sprintf("(%d)", code))
		if lacks {
			require.ErrorAs(t, err, &missing)
			require.NotContains(t, err.Error(), "\n")
		} else {
			require.NotErrorAs(t, err, &missing)
		}
	}
	set(fakeFailCall, failLoad)
	set(fakeFailCode, 2)
	_, err := d.Load("fill", []byte("x"))
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	_, err = d.Function(3, strings.Repeat("x", 256))
	require.ErrorContains(t, err, "a name of more than 255 bytes")
}

// TestNoProducts: a library of products that does not start is as good as none, unless memory is
// short.
func TestNoProducts(t *testing.T) {
	set, _ := fake(t)
	d, s := opened(t)
	missing := (*Missing)(nil)
	product := &Gemm{M: 1, N: 1, Batch: 1}
	for _, call := range []int{failBLAS, failGemm} {
		set(fakeFailCall, call)
		set(fakeFailCode, 3)
		err := d.Gemm(s, product)
		require.ErrorIs(t, err, executor.ErrOutOfMemory)
		require.ErrorContains(t, err, "CUBLAS_STATUS_ALLOC_FAILED (3)")
	}
	d, s = opened(t)
	set(fakeFailCall, failBLAS)
	set(fakeFailCode, 1)
	err := d.Gemm(s, product)
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err,
		"libcublas does not start (is it for another driver?): cublasCreate: CUBLAS_STATUS_NOT_INITIALIZED (1)")
	require.ErrorContains(t, d.Gemm(s, &Gemm{M: 1, N: 1, K: 1 << 31, LDA: 1, LDB: 1, LDC: 1, Batch: 1}),
		"one of 2147483648")
}

// TestLibraryVersions: of several versions of the library, those are tried that the driver can run,
// the newest first.
func TestLibraryVersions(t *testing.T) {
	t.Setenv("MEMOPT_CUBLAS", "")
	home := t.TempDir()
	t.Setenv("CUDA_HOME", home)
	for driver, want := range map[int][]string{13000: {"13", "12", "11"}, 12040: {"12", "11"}, 11080: {"11"}} {
		var got []string
		for _, name := range cublasNames(driver) {
			if version, ok := strings.CutPrefix(name, filepath.Join(home, "lib64", "libcublas.so.")); ok {
				got = append(got, version)
			}
		}
		require.Equal(t, want, got, "%d", driver)
	}
}

// TestSearched finds pip's packages beside the interpreter that a shell would start, and conda's
// own libraries.
func TestSearched(t *testing.T) {
	root := t.TempDir()
	lib := filepath.Join(root, "lib", "python3.12", "site-packages", "nvidia", "cublas", "lib")
	for _, dir := range []string{lib, filepath.Join(root, "bin")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	file := filepath.Join(lib, "libcublas.so.12")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "bin", "python3"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", filepath.Join(root, "bin"))
	t.Setenv("CONDA_PREFIX", "")
	t.Setenv("VIRTUAL_ENV", "")
	require.Contains(t, searched("libcublas.so.12", "nvidia/cublas/lib"), file)
	t.Setenv("CONDA_PREFIX", "/somewhere")
	require.Contains(t, searched("libcublas.so.12", "nvidia/cublas/lib"), "/somewhere/lib/libcublas.so.12")

	// Anybody may have put there what lies in the working folder, or where all can write.
	t.Setenv("CONDA_PREFIX", "")
	t.Setenv("HOME", "")
	t.Chdir(root)
	require.NoError(t, os.Rename("lib", ".lib"))
	require.NoError(t, os.Mkdir(".local", 0o755))
	require.NoError(t, os.Rename(".lib", ".local/lib"))
	for _, name := range searched("libcublas.so.12", "nvidia/cublas/lib")[1:] {
		require.True(t, filepath.IsAbs(name), name)
	}
	t.Setenv("HOME", root)
	file = filepath.Join(root, ".local", "lib", "python3.12", "site-packages", "nvidia", "cublas", "lib",
		"libcublas.so.12")
	require.Contains(t, searched("libcublas.so.12", "nvidia/cublas/lib"), file)
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o777))
	require.NotContains(t, searched("libcublas.so.12", "nvidia/cublas/lib"), file)
}

// TestLargeBatch: a batch of more products than a grid has places is asked for in pieces, each with
// its own operands.
func TestLargeBatch(t *testing.T) {
	fake(t)
	d, s := opened(t)
	const batch = mostBlasBatch + 5
	x, y := make([]float32, batch), make([]float32, batch)
	for i := range x {
		x[i] = float32(i % 1000)
	}
	a, err := d.Alloc(4 * batch)
	require.NoError(t, err)
	defer d.Free(a)
	c, err := d.Alloc(4 * batch)
	require.NoError(t, err)
	defer d.Free(c)
	require.NoError(t, d.CopyIn(s, a, executor.Memory(x)))
	require.NoError(t, d.Gemm(s,
		&Gemm{M: 1, N: 1, K: 1, Alpha: 2, A: a, B: a, C: c, LDA: 1, LDB: 1, LDC: 1, StrideA: 1, StrideB: 0, StrideC: 1,
			Batch: batch}))
	require.NoError(t, d.CopyOut(s, executor.Memory(y), c))
	for i := range x {
		require.Equal(t, 2*x[i]*x[0], y[i])
	}
	require.NoError(t, d.Gemm(s,
		&Gemm{M: 1, N: 1, K: 1, Alpha: 2, A: a, B: a, C: c, LDA: 1, LDB: 1, LDC: 1, StrideA: 1, StrideB: 1, StrideC: 1,
			Batch: batch}))
	require.NoError(t, d.CopyOut(s, executor.Memory(y), c))
	for i := range x {
		require.Equal(t, 2*x[i]*x[i], y[i])
	}
}

// TestLentWorkspace: the library works in what it is lent, and in its own where it is lent nothing.
func TestLentWorkspace(t *testing.T) {
	_, get := fake(t)
	d, s := opened(t)
	b, err := d.Alloc(512)
	require.NoError(t, err)
	defer d.Free(b)
	for _, lent := range []int{0, 256, 256, 0, 128} {
		g := &Gemm{M: 1, N: 1, K: 1, A: b, B: b, C: b, LDA: 1, LDB: 1, LDC: 1, Batch: 1, Workspace: b[:lent]}
		require.NoError(t, d.Gemm(s, g))
		require.Equal(t, lent, get(fakeWorkspace))
	}
}

// TestPartsOfCuDNN: a library whose parts are not there or do not match is missing, when it starts
// and later.
func TestPartsOfCuDNN(t *testing.T) {
	set, _ := fake(t)
	missing := (*Missing)(nil)
	for _, c := range []struct{ version, code int }{{90100, 1008}, {90100, 1002}, {90100, 1001}, {8900, 14},
		{8900, 11}} {
		set(fakeDNNVersion, c.version)
		d, s := opened(t)
		set(fakeFailCall, failDNN)
		set(fakeFailCode, c.code)
		_, err := d.ConvAlgos(s, &Conv{}, SearchHeuristic)
		require.ErrorAs(t, err, &missing, "%+v", c)
		require.ErrorContains(t, err, fmt.Sprintf("(%d)", c.code))
		set(fakeFailCall, 0)
	}
	for _, c := range []struct{ version, code int }{{90100, 4004}, {8900, 2}} {
		set(fakeDNNVersion, c.version)
		d, s := opened(t)
		set(fakeFailCall, failDNN)
		set(fakeFailCode, c.code)
		_, err := d.ConvAlgos(s, &Conv{}, SearchHeuristic)
		require.ErrorIs(t, err, executor.ErrOutOfMemory)
		set(fakeFailCall, 0)
	}
}

// TestParts: a library that needs another one by its bare name opens where that lies beside it.
func TestParts(t *testing.T) {
	if fakeLibrary() == "" || !opensLibraries {
		t.Skip("a C compiler is missing, or a build that opens C libraries: apt-get install gcc, on linux, amd64, " +
			"without the build tag nodl")
	}
	dir := t.TempDir()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("a C compiler called cc is missing, which makes the libraries of this test: apt-get install gcc")
	}
	source := filepath.Join(dir, "part.c")
	require.NoError(t, os.WriteFile(source, []byte("int memopt_part(void) { return 42; }\n"), 0o644))
	whole := filepath.Join(dir, "whole.c")
	require.NoError(t, os.WriteFile(whole,
		[]byte("int memopt_part(void); int memopt_whole(void) { return memopt_part(); }\n"), 0o644))
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libmemopt_part.so.9", "-o", "libmemopt_part.so.9", source},
		{"-shared", "-fPIC", "-o", "libmemopt_whole.so.9", whole, "-L.", "-l:libmemopt_part.so.9"},
	} {
		cmd := exec.Command(cc, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	name := filepath.Join(dir, "libmemopt_whole.so.9")
	_, err = openWithParts([]string{"/nowhere/libmemopt_whole.so.9", name})
	require.ErrorContains(t, err, "libmemopt_part.so.9", "the linker does not look beside it")
	lib, err := openWithParts([]string{"/nowhere/libmemopt_whole.so.9", name}, "libmemopt_none", "libmemopt_part")
	require.NoError(t, err)
	c := new(call)
	c.fn, err = symbol(lib, "memopt_whole")
	require.NoError(t, err)
	require.Equal(t, uintptr(42), c.do()&0xffffffff)
}

// TestClose: what was made of the context is destroyed with the driver, for libraries may keep the
// context.
func TestClose(t *testing.T) {
	_, get := fake(t)
	before := get(fakeMade)
	d, err := Open(0)
	require.NoError(t, err)
	_, err = d.NewStream()
	require.NoError(t, err)
	_, err = d.NewEvent()
	require.NoError(t, err)
	_, err = d.Load("fakes", []byte("ptx"))
	require.NoError(t, err)
	require.Equal(t, before+3, get(fakeMade))
	require.NoError(t, d.Close())
	require.Equal(t, before, get(fakeMade))
	require.NoError(t, d.Close(), "once more does nothing")
}
