package driver

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"memopt/executor"
	"memopt/internal/library"
)

// The functions of cuDNN that are used are those that versions 8 and 9 share: signatures,
// enumerations and the struct of an algorithm's figures are those of NVIDIA's "cuDNN API reference"
// (8.9, chapters cudnn_ops_infer, cudnn_cnn_infer and cudnn_cnn_train; 9, chapters cudnn_ops and
// cudnn_cnn). Version 9 calls them legacy, and has them.

// dnnFunction numbers them.
type dnnFunction int

const (
	dnnGetErrorString dnnFunction = iota
	dnnCreate
	dnnDestroy
	dnnSetStream
	dnnCreateTensor
	dnnSetTensor
	dnnDestroyTensor
	dnnCreateFilter
	dnnSetFilter
	dnnDestroyFilter
	dnnCreateConv
	dnnSetConv
	dnnSetGroups
	dnnSetMath
	dnnDestroyConv
	// One for each ConvKind, in its order.
	dnnRun
	dnnWorkspace = dnnRun + 3
	dnnGuess     = dnnWorkspace + 3
	dnnFind      = dnnGuess + 3
	numDNN       = dnnFind + 3
)

var dnnNames = [numDNN]string{
	dnnGetErrorString: "cudnnGetErrorString", dnnCreate: "cudnnCreate", dnnDestroy: "cudnnDestroy",
	dnnSetStream:    "cudnnSetStream",
	dnnCreateTensor: "cudnnCreateTensorDescriptor", dnnSetTensor: "cudnnSetTensorNdDescriptor",
	dnnDestroyTensor: "cudnnDestroyTensorDescriptor",
	dnnCreateFilter:  "cudnnCreateFilterDescriptor", dnnSetFilter: "cudnnSetFilterNdDescriptor",
	dnnDestroyFilter: "cudnnDestroyFilterDescriptor",
	dnnCreateConv:    "cudnnCreateConvolutionDescriptor", dnnSetConv: "cudnnSetConvolutionNdDescriptor",
	dnnSetGroups: "cudnnSetConvolutionGroupCount",
	dnnSetMath:   "cudnnSetConvolutionMathType", dnnDestroyConv: "cudnnDestroyConvolutionDescriptor",
	dnnRun: "cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter",
	dnnWorkspace: "cudnnGetConvolutionForwardWorkspaceSize", "cudnnGetConvolutionBackwardDataWorkspaceSize",
	"cudnnGetConvolutionBackwardFilterWorkspaceSize",
	dnnGuess: "cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionBackwardDataAlgorithm_v7",
	"cudnnGetConvolutionBackwardFilterAlgorithm_v7",
	dnnFind: "cudnnFindConvolutionForwardAlgorithmEx", "cudnnFindConvolutionBackwardDataAlgorithmEx",
	"cudnnFindConvolutionBackwardFilterAlgorithmEx",
}

// cudnn is the library of convolutions, opened when it is first needed.
type cudnn struct {
	fn      [numDNN]uintptr
	version int // 1000*major + 100*minor + patch, from major 9 on 10000*major + 100*minor + patch
	handle  uintptr
	stream  Stream
	cases   map[ConvCase]*convDescriptors
	// Read by address: factors in the type of the sums, sizes of tensors.
	one, zero uint64
	lists     [3][5]int32
	perf      [mostConvAlgos]convPerf
}

// mostConvAlgos is more than there are: each of at most eight algorithms in three precisions.
const mostConvAlgos = 32

// convPerf is cudnnConvolutionFwdAlgoPerf_t, and those of the gradients, which are alike.
type convPerf struct {
	algo, status        int32
	millis              float32
	_                   uint64 // the workspace in the precision asked for, not in that of math
	deterministic, math int32
	_                   [3]int32
}

// oldestDNN is the first version that can be told not to use TF32 (CUDNN_FMA_MATH).
const oldestDNN = 8000

// dnnParts are the parts of the library that convolutions take, of version 9 and of version 8, each
// after those that it needs.
var dnnParts = []string{"libcudnn_graph", "libcudnn_ops", "libcudnn_heuristic", "libcudnn_engines_runtime_compiled",
	"libcudnn_engines_precompiled", "libcudnn_cnn",
	"libcudnn_ops_infer", "libcudnn_ops_train", "libcudnn_cnn_infer", "libcudnn_cnn_train"}

// cudnnNames lists where the library may be, unless MEMOPT_CUDNN names the file.
func cudnnNames() []string {
	if path := os.Getenv("MEMOPT_CUDNN"); path != "" {
		return []string{path}
	}
	return append(searched("libcudnn.so.9", "nvidia/cudnn/lib"), searched("libcudnn.so.8", "nvidia/cudnn/lib")...)
}

// convLibrary opens cuDNN; a failure is final. The caller holds mu.
func (d *cuda) convLibrary() (*cudnn, error) {
	if d.dnn == nil && d.noDNN == nil {
		d.dnn, d.noDNN = d.openDNN()
	}
	return d.dnn, d.noDNN
}

func (d *cuda) openDNN() (*cudnn, error) {
	_, _ = d.library() // cuDNN asks the linker for cuBLAS by its bare name, and finds it where it is loaded already
	lib, err := openWithParts(cudnnNames(), dnnParts...)
	if err != nil {
		return nil, &Missing{
			fmt.Errorf("libcudnn is not to be found (in the linker's path, CUDA_HOME or pip's nvidia packages; "+
				"MEMOPT_CUDNN may name the file): %w", firstLine(err)),
		}
	}
	getVersion, err := symbol(lib, "cudnnGetVersion")
	if err != nil {
		return nil, &Missing{fmt.Errorf("this is not libcudnn: %w", firstLine(err))}
	}
	library.Note("libcudnn", "libcudnn", getVersion)
	l := &cudnn{cases: map[ConvCase]*convDescriptors{}, stream: ^Stream(0)}
	d.c.fn = getVersion
	if l.version = int(d.c.do()); l.version < oldestDNN {
		return nil, &Missing{fmt.Errorf("libcudnn is too old: it has version %s; version 8.0 or later is wanted",
			dnnVersion(l.version))}
	}
	for f, name := range dnnNames {
		if l.fn[f], err = symbol(lib, name); err != nil {
			return nil,
				&Missing{
					fmt.Errorf("libcudnn of version %s lacks %s; version 8 or 9 is wanted: %w",
						dnnVersion(l.version), name, firstLine(err)),
				}
		}
	}
	if err := l.do(d, dnnCreate, d.addr(0)); err != nil {
		if missing := (*Missing)(nil); errors.Is(err, executor.ErrOutOfMemory) || errors.As(err, &missing) ||
			d.lost != nil {
			return nil, err
		}
		return nil, &Missing{fmt.Errorf("libcudnn does not start (is it for another driver?): %w", err)}
	}
	l.handle = uintptr(d.out[0])
	return l, nil
}

// dnnVersion formats a version as usual.
func dnnVersion(v int) string {
	major := 1000
	if v >= 90000 {
		major = 10000
	}
	return fmt.Sprintf("%d.%d.%d", v/major, v%major/100, v%100)
}

// do calls a function of the library. The error is a *Refused if the library does not support the
// request.
func (l *cudnn) do(d *cuda, f dnnFunction, args ...uintptr) error {
	if d.lost != nil {
		return d.lost
	}
	d.c.fn = l.fn[f]
	code := int(int32(d.c.do(args...)))
	if code == 0 {
		return nil
	}
	d.c.fn = l.fn[dnnGetErrorString]
	name := d.c.do(uintptr(code))
	e := &Error{Call: dnnNames[f], Code: code, Name: "an unknown status", Text: "of cuDNN " + dnnVersion(l.version)}
	if name != 0 {
		e.Name = text(Memory(name, lengthOf(name)))
	}
	switch {
	case l.refuses(code):
		return &Refused{e}
	case l.lacks(code):
		return &Missing{fmt.Errorf("libcudnn is incomplete, or its parts are of different "+
			"versions: %w", e)}
	case code == 2 && l.version < 90000, code == 4004: // ALLOC_FAILED, INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
		return fmt.Errorf("%w: %w", executor.ErrOutOfMemory, e)
	}
	return e
}

// lacks reports whether a status says that another file that the library opens by itself, a part of
// its own or of CUDA's, is not there or does not match: RUNTIME_PREREQUISITE_MISSING and
// VERSION_MISMATCH; from version 9 on SUBLIBRARY_VERSION_MISMATCH and SUBLIBRARY_LOADING_FAILED.
func (l *cudnn) lacks(code int) bool {
	if l.version >= 90000 {
		return code == 1002 || code == 1008
	}
	return code == 11 || code == 14
}

// refuses reports whether a status says that a case is not offered: BAD_PARAM, ARCH_MISMATCH or
// NOT_SUPPORTED, which are groups of a thousand from version 9 on.
func (l *cudnn) refuses(code int) bool {
	if l.version >= 90000 {
		return code >= 2000 && code < 4000
	}
	return code == 3 || code == 6 || code == 9
}

// close frees the library's handles and memory.
func (l *cudnn) close(d *cuda) {
	for _, c := range l.cases {
		c.close(l, d)
	}
	l.do(d, dnnDestroy, l.handle)
}

// Values of cudnnDataType_t, by Elem, and of cudnnMathType_t, cudnnTensorFormat_t and
// cudnnConvolutionMode_t.
var dnnTypes, dnnSums = [...]uintptr{F32: 0, F64: 1, F16: 2, BF16: 9}, [...]uintptr{F32: 0, F64: 1, F16: 0, BF16: 0}

const (
	mathDefault     = 0 // TF32 where the device has it
	mathTensorOp    = 1 // products of halves by tensor cores
	mathFMA         = 3 // no rounding of operands
	formatNCHW      = 0
	crossCorrelates = 1
)

// Convolve runs a convolution by an algorithm that ConvAlgos has named.
func (d *cuda) Convolve(s Stream, c *Conv) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.convLibrary()
	if err != nil {
		return err
	}
	if err := c.CheckRun(); err != nil {
		return err
	}
	desc, err := l.begin(d, s, c, c.Algo.Math)
	if err != nil {
		return err
	}
	data, room := c.operands(), uintptr(0)
	if c.Algo.Workspace > 0 {
		room = Address(c.Workspace)
	}
	return l.do(d, dnnRun+dnnFunction(c.Kind), l.handle, uintptr(unsafe.Pointer(&l.one)), desc.order[0],
		Address(data[0]), desc.order[1], Address(data[1]),
		desc.conv, uintptr(c.Algo.Number), room, uintptr(c.Algo.Workspace), uintptr(unsafe.Pointer(&l.zero)),
		desc.order[2], Address(data[2]))
}

// operands lists X, W and Y as all functions of the library take them: two that are read, then the
// one that is computed.
func (c *Conv) operands() [3][]byte {
	switch c.Kind {
	case ConvData:
		return [3][]byte{c.W, c.Y, c.X}
	case ConvFilter:
		return [3][]byte{c.X, c.Y, c.W}
	}
	return [3][]byte{c.X, c.W, c.Y}
}

// begin makes the library ready for work on a stream: the case's descriptors, with a precision, and
// its factors.
func (l *cudnn) begin(d *cuda, s Stream, c *Conv, math int) (*convDescriptors, error) {
	desc, err := l.describe(d, &c.ConvCase)
	if err != nil {
		return nil, err
	}
	if err := desc.setMath(l, d, math); err != nil {
		return nil, err
	}
	if l.stream != s {
		if err := l.do(d, dnnSetStream, l.handle, uintptr(s)); err != nil {
			return nil, err
		}
		l.stream = s
	}
	l.one, l.zero = 0x3f800000, 0 // of float32
	if c.Elem == F64 {
		l.one = 0x3ff0000000000000
	}
	return desc, nil
}

// ConvAlgos asks the library which algorithms it has, best first.
func (d *cuda) ConvAlgos(s Stream, c *Conv, how ConvSearch) ([]ConvAlgo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.convLibrary()
	if err != nil {
		return nil, err
	}
	if how == SearchExhaustive {
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	desc, err := l.begin(d, s, c, c.math())
	if err != nil {
		return nil, err
	}
	if how == SearchDefault {
		// Number 1 of each kind: IMPLICIT_PRECOMP_GEMM, and ALGO_1 of the gradients. All three are
		// deterministic.
		a := ConvAlgo{Number: 1, Math: c.math(), Deterministic: true}
		a.Workspace, err = desc.workspace(l, d, c.Kind, a)
		return []ConvAlgo{a}, err
	}
	count, perf := d.addr(1), uintptr(unsafe.Pointer(&l.perf))
	if how == SearchHeuristic {
		err = l.do(d, dnnGuess+dnnFunction(c.Kind), l.handle, desc.order[0], desc.order[1], desc.conv, desc.order[2],
			mostConvAlgos, count, perf)
	} else {
		data := c.operands()
		err = l.do(d, dnnFind+dnnFunction(c.Kind), l.handle, desc.order[0], Address(data[0]), desc.order[1],
			Address(data[1]), desc.conv, desc.order[2], Address(data[2]),
			mostConvAlgos, count, perf, Address(c.Workspace), uintptr(len(c.Workspace)))
	}
	runtime.KeepAlive(c)
	if err != nil {
		return nil, err
	}
	return l.algorithms(d, c, desc, min(int(int32(d.out[1])), mostConvAlgos))
}

// algorithms reads the figures of algorithms: of those that work, and that keep to the precision
// asked for.
func (l *cudnn) algorithms(d *cuda, c *Conv, desc *convDescriptors, n int) ([]ConvAlgo, error) {
	var list []ConvAlgo
	for _, p := range l.perf[:n] {
		if p.status != 0 || c.math() == mathFMA && p.math != mathFMA {
			continue // an algorithm that fails, or one in a precision that was not asked for
		}
		a := ConvAlgo{
			Number: int(p.algo), Math: int(p.math), Deterministic: p.deterministic == 1,
			Millis: max(float64(p.millis), 0),
		}
		var err error
		refused := (*Refused)(nil)
		switch a.Workspace, err = desc.workspace(l, d, c.Kind, a); {
		case errors.As(err, &refused):
			continue // not in this precision
		case err != nil:
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// math returns the precision to ask for.
func (c *ConvCase) math() int {
	switch {
	case c.Elem == F32 && !c.TF32:
		return mathFMA
	case c.Elem == F32, c.Elem == F64: // doubles have one precision only
		return mathDefault
	}
	return mathTensorOp
}
