package memlimit

import (
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// System is where the limits of a process are read: the root of a tree of files, and a function for
// limits that are in no file.
type System struct {
	files   fs.FS
	rlimits func() []rlimit
	groups  []group // of the process, innermost first
}

// rlimit is a resource limit.
type rlimit struct {
	field string // of /proc/self/status: its usage
	bytes int64  // without the reserve
	by    string
	raise string
}

func newSystem(files fs.FS, rlimits func() []rlimit) *System {
	return &System{files: files, rlimits: rlimits, groups: findGroups(files)}
}

// The reserve for implicit needs: Go's heap and its collector, stacks, page tables.
const (
	keptMemory = 24 << 20
	// keptData is writable memory, which Go's heap takes by 64 MiB, and keptSpace is address space:
	// besides the heap, each thread's stack takes 8 MiB of it, and libraries their length.
	keptData  = 96 << 20
	keptSpace = 160 << 20
)

// available returns the limit that leaves the least beside promised bytes of mappings.
func (s *System) available(promised int64, swap bool) (least Limit, ok bool) {
	status := s.fields("proc/self/status")
	meminfo := s.fields("proc/meminfo")
	// The resident part of the promised bytes is already in the system's counts. All anonymous
	// memory of the process is an upper bound of it.
	untouched := max(0, promised-status["RssAnon"])
	swapFree := int64(0)
	if swap {
		swapFree = meminfo["SwapFree"]
	}
	consider := func(bytes int64, by, raise string) {
		if bytes = max(0, bytes); !ok || bytes < least.Bytes {
			least, ok = Limit{bytes, by, raise}, true
		}
	}
	if free, has := meminfo["MemAvailable"]; has {
		by := "this machine's free memory (MemAvailable)"
		if swapFree > 0 {
			by = "this machine's free memory and swap (MemAvailable, SwapFree)"
		}
		consider(add(free, swapFree)-untouched-keptMemory, by, "a machine with more memory")
	}
	for i := range s.groups {
		g := &s.groups[i]
		if left, has := g.left(swapFree); has {
			consider(left-untouched-keptMemory, "the limit of the control group ("+g.limitFile()+")",
				"raise that limit")
		}
	}
	for _, l := range s.rlimits() {
		if used, has := status[l.field]; has {
			consider(l.bytes-used, l.by, l.raise)
		}
	}
	return least, ok
}

// fields reads a file of lines "Name:   123 kB" and returns the numbers in bytes; nil for an
// unreadable file.
func (s *System) fields(name string) map[string]int64 {
	m := map[string]int64{}
	for line := range strings.Lines(s.read(name)) {
		key, text, _ := strings.Cut(line, ":")
		number, isSize := strings.CutSuffix(strings.TrimSpace(text), " kB")
		if kib, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64); isSize && err == nil &&
			kib <= math.MaxInt64>>10 {
			m[key] = kib << 10
		}
	}
	return m
}

// read returns a file of the tree, "" where it cannot be read.
func (s *System) read(name string) string {
	data, err := fs.ReadFile(s.files, name)
	if err != nil {
		return ""
	}
	return string(data)
}

// add is the sum of two numbers that are not negative, the largest number where that is larger.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
