//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// function is a place in the table OrtApi. The table of one release begins with that of every
// earlier one.
type function int

const (
	fnGetErrorCode               function = 1
	fnGetErrorMessage            function = 2
	fnCreateEnv                  function = 3
	fnDisableTelemetryEvents     function = 6
	fnCreateSession              function = 7
	fnCreateSessionFromArray     function = 8
	fnRun                        function = 9
	fnCreateSessionOptions       function = 10
	fnSetSessionExecutionMode    function = 13
	fnDisableMemPattern          function = 17
	fnDisableCPUMemArena         function = 19
	fnSetOptimizationLevel       function = 23
	fnSetIntraOpThreads          function = 24
	fnSetInterOpThreads          function = 25
	fnSessionGetInputCount       function = 30
	fnSessionGetOutputCount      function = 31
	fnSessionGetInputName        function = 36
	fnSessionGetOutputName       function = 37
	fnCreateTensorWithData       function = 49
	fnGetTensorMutableData       function = 51
	fnGetTensorElementType       function = 60
	fnGetDimensionsCount         function = 61
	fnGetDimensions              function = 62
	fnGetTensorTypeAndShape      function = 65
	fnGetValueType               function = 67
	fnCreateCPUMemoryInfo        function = 69
	fnAllocatorFree              function = 76
	fnGetAllocatorDefault        function = 78
	fnReleaseEnv                 function = 92
	fnReleaseStatus              function = 93
	fnReleaseMemoryInfo          function = 94
	fnReleaseSession             function = 95
	fnReleaseValue               function = 96
	fnReleaseTensorTypeAndShape  function = 99
	fnReleaseSessionOptions      function = 100
	fnAddSessionConfigEntry      function = 130
	fnCreateAllocator            function = 131
	fnReleaseAllocator           function = 132
	fnCreateAndRegisterAllocator function = 144
	fnReleaseArenaCfg            function = 157
	fnCreateArenaCfgV2           function = 164
	fnGetKeyValuePairs           function = 298
	fnReleaseKeyValuePairs       function = 300
	fnAllocatorGetStats          function = 319 // the youngest: since 1.23
)

// api is the table.
type api struct {
	table unsafe.Pointer
}

// pointer returns the address of a function.
func (a api) pointer(f function) uintptr {
	return *(*uintptr)(unsafe.Add(a.table, uintptr(f)*unsafe.Sizeof(uintptr(0))))
}

// call calls a function that returns a status and makes an error of it. Go memory whose address is
// converted in the argument list stays where it is during the call.
//
//go:uintptrescapes
func (a api) call(f function, args ...uintptr) error {
	status, _, _ := purego.SyscallN(a.pointer(f), args...)
	if status == 0 {
		return nil
	}
	code, _, _ := purego.SyscallN(a.pointer(fnGetErrorCode), status)
	text, _, _ := purego.SyscallN(a.pointer(fnGetErrorMessage), status)
	err := &RuntimeError{Phase: PhaseCall, Code: int(int32(code)), Message: goString(text)}
	a.release(fnReleaseStatus, status)
	return err
}

// release calls a function that takes one handle and has no result.
func (a api) release(f function, handle uintptr) {
	if handle != 0 {
		purego.SyscallN(a.pointer(f), handle)
	}
}

// address makes a pointer of a number that C code returned. It never points into Go's memory.
func address(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// goString copies a C string.
func goString(p uintptr) string {
	if p == 0 {
		return ""
	}
	start := address(p)
	n := 0
	for *(*byte)(unsafe.Add(start, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(start), n))
}

// cString makes a C string in Go's memory.
func cString(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

// fetch calls a function without a result that writes to its address arguments.
//
//go:uintptrescapes
func (a api) fetch(f function, args ...uintptr) { purego.SyscallN(a.pointer(f), args...) }
