//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"memopt/internal/library"
)

// Library is ONNX Runtime, loaded into this process. It is never unloaded: the runtime does
// not promise that it can be.
type Library struct {
	api     api
	env     uintptr
	path    string
	doubt   string
	version string
	arena   bool // the environment has the arena that sessions share
}

// Open loads the first of the candidates that is an ONNX Runtime of a release that can be used. The
// error is a *MissingError.
func Open(candidates []string) (*Library, error) {
	missing := &MissingError{}
	for _, path := range candidates {
		l, err := openAt(path)
		if err == nil {
			return l, nil
		}
		// A bare name that the linker does not find is not reported as an unusable library.
		if missing.Reason == "" && (filepath.Base(path) != path || len(candidates) == 1) {
			missing.Reason = err.Error()
		}
	}
	return nil, missing
}

func openAt(path string) (*Library, error) {
	// The text of an error belongs to the thread that made the call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be loaded: %s", path, strings.TrimPrefix(err.Error(), path+": "))
	}
	getBase, err := purego.Dlsym(handle, "OrtGetApiBase")
	if err != nil {
		return nil, fmt.Errorf("%s is not ONNX Runtime: it has no function OrtGetApiBase", path)
	}
	base, _, _ := purego.SyscallN(getBase)
	if base == 0 {
		return nil, fmt.Errorf("%s is not ONNX Runtime: OrtGetApiBase returns null", path)
	}
	// struct OrtApiBase { GetApi(version); GetVersionString(); }
	entries := (*[2]uintptr)(address(base))
	version, _, _ := purego.SyscallN(entries[1])
	l := &Library{path: path, version: goString(version)}
	if !newEnough(l.version) {
		return nil, fmt.Errorf("%s is ONNX Runtime %s: wanted %s or later, whose allocator "+
			"reports how much is in use",
			path, l.version, oldestRelease)
	}
	table, _, _ := purego.SyscallN(entries[0], apiVersion)
	if table == 0 {
		return nil, fmt.Errorf("%s is ONNX Runtime %s, which does not offer version %d of its C API",
			path, l.version, apiVersion)
	}
	l.api = api{address(table)}
	const logErrors = 3 // ORT_LOGGING_LEVEL_ERROR
	name := cString("memopt")
	if err := l.api.call(fnCreateEnv, logErrors, uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&l.env))); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	runtime.KeepAlive(name)
	o := library.Note("ONNX Runtime", path, getBase)
	l.path, l.doubt = o.Path, o.Doubt
	if err := l.api.call(fnDisableTelemetryEvents, l.env); err != nil {
		l.api.release(fnReleaseEnv, l.env)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// Path returns the library's file.
func (l *Library) Path() string { return l.path }

// Doubt returns a reason to distrust the file, or "".
func (l *Library) Doubt() string { return l.doubt }

// Version returns the library's release.
func (l *Library) Version() string { return l.version }

// memoryInfo makes a description of the CPU's arena; the caller releases it.
func (l *Library) memoryInfo() (info uintptr, err error) {
	const arenaAllocator, memTypeDefault = 1, 0
	err = l.api.call(fnCreateCPUMemoryInfo, arenaAllocator, memTypeDefault, uintptr(unsafe.Pointer(&info)))
	return info, err
}

// registerArena makes the library use an arena with the given bounds in sessions that take the
// environment's.
func (l *Library) registerArena(o Options) error {
	if l.arena && o.Shared {
		return nil
	}
	keys := []*byte{cString("arena_extend_strategy")}
	strategy := uintptr(0)
	if o.Exact {
		strategy = 1
	}
	values := []uintptr{strategy}
	if o.MemLimit > 0 {
		keys, values = append(keys, cString("max_mem")), append(values, uintptr(o.MemLimit))
	}
	if o.Split {
		const grain = 256 // the arena's own grain: the rest of a chunk is empty, or at least this large
		keys, values = append(keys, cString("max_dead_bytes_per_chunk")), append(values, grain)
	}
	var arena uintptr
	if err := l.api.call(fnCreateArenaCfgV2, uintptr(unsafe.Pointer(&keys[0])), uintptr(unsafe.Pointer(&values[0])),
		uintptr(len(keys)), uintptr(unsafe.Pointer(&arena))); err != nil {
		return err
	}
	runtime.KeepAlive(keys)
	defer l.api.release(fnReleaseArenaCfg, arena)
	info, err := l.memoryInfo()
	if err != nil {
		return err
	}
	defer l.api.release(fnReleaseMemoryInfo, info)
	err = l.api.call(fnCreateAndRegisterAllocator, l.env, info, arena)
	l.arena = l.arena || err == nil
	return err
}

// asPhase adds the phase to an error of the runtime.
func asPhase(phase string, err error) error {
	var e *RuntimeError
	if errors.As(err, &e) {
		e.Phase = phase
	}
	return err
}
