package memlimit

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// ErrOutOfMemory is wrapped by errors about a lack of memory.
var ErrOutOfMemory = errors.New("out of memory")

// Limit is the bound that leaves the least.
type Limit struct {
	Bytes int64  // that may still be taken; not negative
	By    string // the source of the bound, as an error names it
	Raise string // how to raise it
}

// Error says that something does not fit.
type Error struct {
	What   string // wants the memory; "" where the caller says so
	Wanted int64  // bytes
	Limit  Limit
}

// Error gives the purpose and the size of the allocation, the memory left, the limit, and a remedy.
func (e *Error) Error() string {
	text := fmt.Sprintf("%v: %d bytes are wanted and %d are left, by %s; take smaller sizes, or %s",
		ErrOutOfMemory, e.Wanted, e.Limit.Bytes, e.Limit.By, e.Limit.Raise)
	if e.What == "" {
		return text
	}
	return e.What + ": " + text
}

// Unwrap returns ErrOutOfMemory.
func (e *Error) Unwrap() error { return ErrOutOfMemory }

// Bytes that may be taken without asking the system again: up to this many in all, or half of the
// memory left, in pieces below largeBytes. Many small pieces are thus bounded like one large one,
// and a small one costs an addition.
const (
	creditBytes = 16 << 20
	largeBytes  = 1 << 20
)

// process is the memory of this process.
var process struct {
	promised atomic.Int64 // bytes mapped by Promise
	credit   atomic.Int64 // bytes that may be taken before the system is asked again
	pretend  atomic.Pointer[Limit]
	system   func() *System
}

func init() {
	process.system = sync.OnceValue(func() *System { return newSystem(os.DirFS("/"), rlimits) })
}

// Available returns the limit of the memory that may still be taken without swapping; false if
// there is no limit.
func Available() (Limit, bool) {
	if l := process.pretend.Load(); l != nil {
		return *l, true
	}
	return process.system().available(process.promised.Load(), false)
}

// Check makes sure that n more bytes fit, swap included. The error is an *Error; the format with
// its arguments is its purpose.
func Check(n int64, format string, args ...any) error {
	if n <= 0 || n < largeBytes && process.credit.Add(-n) >= 0 {
		return nil
	}
	l, ok := Room()
	if ok && n > l.Bytes {
		debug.FreeOSMemory() // garbage counts as used
		l, ok = Room()
	}
	if ok && n > l.Bytes {
		return &Error{What: fmt.Sprintf(format, args...), Wanted: n, Limit: l}
	}
	if !ok {
		l.Bytes = math.MaxInt64
	}
	process.credit.Store(min(creditBytes, (l.Bytes-n)/2))
	return nil
}

// Room is Available with swap included: the limit that Check compares n with.
func Room() (Limit, bool) {
	if l := process.pretend.Load(); l != nil {
		return *l, true
	}
	return process.system().available(process.promised.Load(), true)
}

// BoundHeap makes Go's collector work harder, and return free memory, instead of letting the heap
// grow beyond the available memory: by default it lets garbage double the heap. A limit set by the
// variable GOMEMLIMIT stays.
func BoundHeap() {
	if l, ok := Available(); ok && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(l.Bytes, leastHeap))
	}
}

// leastHeap is the least limit of the heap: below it the collector would run all the time.
const leastHeap = 64 << 20

// Promise announces that n bytes have been mapped and will be touched; a negative n revokes that.
func Promise(n int64) { process.promised.Add(n) }

// Pretend makes Check and Available report the given limit until restore is called: for tests.
func Pretend(bytes int64) (restore func()) {
	process.pretend.Store(&Limit{Bytes: bytes, By: "a test", Raise: "end the test"})
	process.credit.Store(0)
	return func() { process.pretend.Store(nil) }
}
