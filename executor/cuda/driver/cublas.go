package driver

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"unsafe"

	"memopt/executor"
	"memopt/internal/library"
)

// cublas is the library of products of matrices, opened when it is first needed.
type cublas struct {
	create, destroy, setStream, setWorkspace, setMode, gemm uintptr
	handle                                                  uintptr
	stream                                                  Stream
	workspace                                               uintptr
	workspaceBytes                                          int
	// Factors, read by address in the type that sums are computed in.
	alpha, beta [8]byte
}

// cublasNames lists where the library may be, unless MEMOPT_CUBLAS names the file: of the versions
// that a driver for CUDA of a version can run. A library runs on any driver for its major version
// or a later one (CUDA Compatibility, section on minor versions).
func cublasNames(driver int) []string {
	if path := os.Getenv("MEMOPT_CUBLAS"); path != "" {
		return []string{path}
	}
	var names []string
	for _, version := range []string{"13", "12", "11"} {
		if major, _ := strconv.Atoi(version); major > driver/1000 {
			continue
		}
		names = append(names, searched("libcublas.so."+version, "nvidia/cublas/lib", "nvidia/cu"+version+"/lib")...)
	}
	return names
}

// library opens cuBLAS. The caller holds mu.
func (d *cuda) library() (*cublas, error) {
	if d.blas != nil {
		return d.blas, nil
	}
	if os.Getenv("MEMOPT_CUBLAS") == "off" {
		return nil, &Missing{errors.New("libcublas is switched off by MEMOPT_CUBLAS=off")}
	}
	lib, err := openWithParts(cublasNames(d.info.DriverVersion), "libcublasLt")
	if err != nil {
		return nil, &Missing{
			fmt.Errorf("libcublas is not to be found (in the linker's path, CUDA_HOME or pip's nvidia packages; "+
				"MEMOPT_CUBLAS may name the file): %w", firstLine(err)),
		}
	}
	b := &cublas{}
	for _, f := range []struct {
		to   *uintptr
		name string
	}{{&b.create, "cublasCreate_v2"}, {&b.destroy, "cublasDestroy_v2"}, {&b.setStream, "cublasSetStream_v2"},
		{&b.setWorkspace, "cublasSetWorkspace_v2"}, {&b.setMode, "cublasSetMathMode"},
		{&b.gemm, "cublasGemmStridedBatchedEx"}} {
		if *f.to, err = symbol(lib, f.name); err != nil {
			return nil,
				&Missing{fmt.Errorf("libcublas is too old; version 11.2 or later is wanted: %w", firstLine(err))}
		}
	}
	library.Note("libcublas", "libcublas", b.create)
	if err := b.begin(d); err != nil {
		return nil, err
	}
	d.blas = b
	return b, nil
}

// begin makes the library's handle. A library that does not start, such as one for another driver
// or GPU, counts as missing.
func (b *cublas) begin(d *cuda) error {
	if err := d.blasCall("cublasCreate", b.create, d.addr(0)); err != nil {
		if errors.Is(err, executor.ErrOutOfMemory) || d.lost != nil {
			return err
		}
		return &Missing{fmt.Errorf("libcublas does not start (is it for another driver?): %w", err)}
	}
	b.handle = uintptr(d.out[0])
	err := d.blasCall("cublasSetMathMode", b.setMode, b.handle, mathFullSums)
	if err != nil {
		b.close(d)
	}
	return err
}

func (b *cublas) close(d *cuda) { d.blasCall("cublasDestroy", b.destroy, b.handle) }

// blasAllocFailed is CUBLAS_STATUS_ALLOC_FAILED.
const blasAllocFailed = 3

// blasStatus names the codes of cublasStatus_t.
var blasStatus = map[int]string{1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH",
	11: "MAPPING_ERROR",
	13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR"}

// blasCall calls a function of the library.
func (d *cuda) blasCall(name string, fn uintptr, args ...uintptr) error {
	if d.lost != nil {
		return d.lost
	}
	d.c.fn = fn
	if code := int(int32(d.c.do(args...))); code != 0 {
		status := blasStatus[code]
		if status == "" {
			status = "unknown"
		}
		err := &Error{Call: name, Code: code, Name: "CUBLAS_STATUS_" + status, Text: "the product was not started"}
		if code == blasAllocFailed {
			return fmt.Errorf("%w: %w", executor.ErrOutOfMemory, err)
		}
		return err
	}
	return nil
}

// Codes of cudaDataType, cublasComputeType_t and cublasMath_t.
var (
	blasTypes   = [...]uintptr{F32: 0, F64: 1, F16: 2, BF16: 14}
	blasCompute = [...]uintptr{F32: 68, F64: 70, F16: 68, BF16: 68}
)

const (
	computeFastTF32 = 77
	// mathFullSums is CUBLAS_DEFAULT_MATH with CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION:
	// sums of pieces of a product of halves are not rounded to halves before they are added. TF32
	// is by the type of computing alone.
	mathFullSums = 16
	defaultAlgo  = ^uintptr(0) // CUBLAS_GEMM_DEFAULT
)

// Gemm multiplies. The library has matrices in columns: rows of C are columns of its transpose, Cᵀ
// = B'ᵀ*A'ᵀ.
func (d *cuda) Gemm(s Stream, g *Gemm) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.library()
	if err != nil || g.M == 0 || g.N == 0 || g.Batch == 0 {
		return err
	}
	if err := b.prepare(d, s, g.Workspace); err != nil {
		return err
	}
	if n := max(g.M, g.N, g.K, g.LDA, g.LDB, g.LDC); n > math.MaxInt32 {
		return fmt.Errorf("libcublas takes sizes below 2^31; a product of %dx%d and %dx%d matrices has one of %d",
			g.M, g.K, g.K, g.N, n)
	}
	compute := blasCompute[g.Elem]
	if g.Elem == F32 && g.TF32 {
		compute = computeFastTF32
	}
	b.factors(g)
	typ, size := blasTypes[g.Elem], g.Elem.Size()
	for at := 0; at < g.Batch; at += mostBlasBatch {
		from := func(b []byte, stride int) uintptr { return Address(b) + uintptr(at*stride*size) }
		err := d.blasCall("cublasGemmStridedBatchedEx", b.gemm, b.handle, transposed(g.TransB), transposed(g.TransA),
			uintptr(g.N), uintptr(g.M), uintptr(g.K), uintptr(unsafe.Pointer(&b.alpha)),
			from(g.B, g.StrideB), typ, uintptr(g.LDB), uintptr(g.StrideB),
			from(g.A, g.StrideA), typ, uintptr(g.LDA), uintptr(g.StrideA), uintptr(unsafe.Pointer(&b.beta)),
			from(g.C, g.StrideC), typ, uintptr(g.LDC), uintptr(g.StrideC),
			uintptr(min(g.Batch-at, mostBlasBatch)), compute, defaultAlgo)
		if err != nil {
			return err
		}
	}
	return nil
}

// mostBlasBatch is how many products the library is asked for at once: with more than a grid has
// blocks along its third dimension, 65535, some versions fail on devices of compute capability 7
// (PyTorch's issue 45724). A multiple of 1024 keeps operands aligned.
const mostBlasBatch = 63 * 1024

// prepare sets the library's stream and workspace if they have changed. Setting a stream restores
// the library's own workspace (cublasSetStream), its only one if the session lends it no other.
func (b *cublas) prepare(d *cuda, s Stream, workspace []byte) error {
	if b.stream != s || len(workspace) == 0 && b.workspaceBytes > 0 {
		if err := d.blasCall("cublasSetStream", b.setStream, b.handle, uintptr(s)); err != nil {
			return err
		}
		b.stream, b.workspace, b.workspaceBytes = s, 0, 0
	}
	if at := Address(workspace); len(workspace) > 0 && (at != b.workspace || len(workspace) != b.workspaceBytes) {
		if err := d.blasCall("cublasSetWorkspace", b.setWorkspace, b.handle, at, uintptr(len(workspace))); err != nil {
			return err
		}
		b.workspace, b.workspaceBytes = at, len(workspace)
	}
	return nil
}

// factors writes alpha and beta in the type of the sums.
func (b *cublas) factors(g *Gemm) {
	put := func(to *[8]byte, v float64) {
		bits := uint64(math.Float32bits(float32(v)))
		if g.Elem == F64 {
			bits = math.Float64bits(v)
		}
		for i := range to {
			to[i] = byte(bits >> (8 * i))
		}
	}
	put(&b.alpha, g.Alpha)
	put(&b.beta, g.Beta)
}

func transposed(t bool) uintptr {
	if t {
		return 1
	}
	return 0
}
