//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// Session is a model that is ready to run. It is used by one goroutine at a time.
type Session struct {
	lib       *Library
	handle    uintptr
	allocator uintptr // the arena, to ask for its counts; 0 without one
	tensors   uintptr // description of the memory that inputs lie in
	inputs    []string
	outputs   []string
}

// NewSession loads a model from a file; external data are looked for beside it.
func (l *Library) NewSession(path string, o Options) (*Session, error) {
	name := cString(path)
	s, err := l.newSession(o, func(options uintptr, out *uintptr) error {
		return l.api.call(fnCreateSession, l.env, uintptr(unsafe.Pointer(name)), options, uintptr(unsafe.Pointer(out)))
	})
	runtime.KeepAlive(name)
	return s, err
}

// NewSessionBytes loads a model from memory.
func (l *Library) NewSessionBytes(model []byte, o Options) (*Session, error) {
	data := model
	if len(data) == 0 {
		data = []byte{0} // the runtime requires an address even for no data
	}
	return l.newSession(o, func(options uintptr, out *uintptr) error {
		return l.api.call(fnCreateSessionFromArray, l.env, uintptr(unsafe.Pointer(&data[0])), uintptr(len(model)),
			options, uintptr(unsafe.Pointer(out)))
	})
}

func (l *Library) newSession(o Options, create func(options uintptr, out *uintptr) error) (*Session, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	options, err := l.sessionOptions(o)
	if err != nil {
		return nil, err
	}
	defer l.api.release(fnReleaseSessionOptions, options)
	s := &Session{lib: l}
	if err := create(options, &s.handle); err != nil {
		return nil, asPhase(PhaseOpen, err)
	}
	if err := s.describe(o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// sessionOptions makes the runtime's options; the caller releases them.
func (l *Library) sessionOptions(o Options) (options uintptr, err error) {
	if err := l.api.call(fnCreateSessionOptions, uintptr(unsafe.Pointer(&options))); err != nil {
		return 0, err
	}
	set := func(wanted bool, f function, args ...uintptr) {
		if wanted && err == nil {
			err = l.api.call(f, append([]uintptr{options}, args...)...)
		}
	}
	const parallel = 1 // ORT_PARALLEL
	set(true, fnSetOptimizationLevel, levels[o.Optimization])
	set(o.Threads > 0, fnSetIntraOpThreads, uintptr(o.Threads))
	set(o.InterOp > 0, fnSetInterOpThreads, uintptr(o.InterOp))
	set(o.Parallel, fnSetSessionExecutionMode, parallel)
	set(o.NoPattern, fnDisableMemPattern)
	set(o.NoArena, fnDisableCPUMemArena)
	config := o.Config
	if o.ownArena() {
		if err == nil {
			err = l.registerArena(o)
		}
		config = append([]string{"session.use_env_allocators=1"}, config...)
	}
	for _, entry := range config {
		key, value, _ := strings.Cut(entry, "=")
		k, v := cString(key), cString(value)
		if err == nil {
			err = l.api.call(fnAddSessionConfigEntry, options, uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(v)))
		}
	}
	if err != nil {
		l.api.release(fnReleaseSessionOptions, options)
		return 0, err
	}
	return options, nil
}

// describe finds the names of inputs and outputs and the arena.
func (s *Session) describe(o Options) error {
	var err error
	if s.inputs, err = s.names(fnSessionGetInputCount, fnSessionGetInputName); err != nil {
		return err
	}
	if s.outputs, err = s.names(fnSessionGetOutputCount, fnSessionGetOutputName); err != nil {
		return err
	}
	if s.tensors, err = s.lib.memoryInfo(); err != nil || o.NoArena {
		return err
	}
	return s.lib.api.call(fnCreateAllocator, s.handle, s.tensors, uintptr(unsafe.Pointer(&s.allocator)))
}

func (s *Session) names(count, name function) ([]string, error) {
	a := s.lib.api
	var allocator, n uintptr
	if err := a.call(fnGetAllocatorDefault, uintptr(unsafe.Pointer(&allocator))); err != nil {
		return nil, err
	}
	if err := a.call(count, s.handle, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	names := make([]string, n)
	for i := range names {
		var text uintptr
		if err := a.call(name, s.handle, uintptr(i), allocator, uintptr(unsafe.Pointer(&text))); err != nil {
			return nil, err
		}
		names[i] = goString(text)
		if err := a.call(fnAllocatorFree, allocator, text); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Inputs returns the names of the inputs that the model requires.
func (s *Session) Inputs() []string { return s.inputs }

// Outputs returns the names of the outputs.
func (s *Session) Outputs() []string { return s.outputs }

// Stats returns the arena's counts.
func (s *Session) Stats() (Stats, error) {
	if s.allocator == 0 {
		return Stats{}, nil
	}
	a := s.lib.api
	var pairs, keys, values, n uintptr
	if err := a.call(fnAllocatorGetStats, s.allocator, uintptr(unsafe.Pointer(&pairs))); err != nil {
		return Stats{}, err
	}
	defer a.release(fnReleaseKeyValuePairs, pairs)
	a.fetch(fnGetKeyValuePairs, pairs, uintptr(unsafe.Pointer(&keys)), uintptr(unsafe.Pointer(&values)),
		uintptr(unsafe.Pointer(&n)))
	var st Stats
	fields := map[string]*int64{"InUse": &st.InUse, "MaxInUse": &st.MaxInUse, "TotalAllocated": &st.Total}
	found := 0
	for i := range int(n) {
		field := fields[goString(element(keys, i))]
		if field == nil {
			continue
		}
		var err error
		if *field, err = strconv.ParseInt(goString(element(values, i)), 10, 64); err == nil {
			found++
		}
	}
	st.Known = found == len(fields)
	return st, nil
}

// element returns element i of a C array of pointers.
func element(array uintptr, i int) uintptr {
	return *(*uintptr)(unsafe.Add(address(array), uintptr(i)*unsafe.Sizeof(array)))
}

// Close frees the session's memory.
func (s *Session) Close() {
	a := s.lib.api
	a.release(fnReleaseAllocator, s.allocator)
	a.release(fnReleaseMemoryInfo, s.tensors)
	a.release(fnReleaseSession, s.handle)
	s.allocator, s.tensors, s.handle = 0, 0, 0
}
