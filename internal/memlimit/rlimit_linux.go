package memlimit

import (
	"math"

	"golang.org/x/sys/unix"
)

// rlimits returns the resource limits of this process that bound its memory.
func rlimits() []rlimit {
	var list []rlimit
	add := func(resource int, field string, kept int64, by, raise string) {
		var r unix.Rlimit
		if unix.Getrlimit(resource, &r) == nil && r.Cur < math.MaxInt64 {
			list = append(list, rlimit{field, int64(r.Cur) - kept, by, raise})
		}
	}
	add(unix.RLIMIT_AS, "VmSize", keptSpace, "the limit of address space (RLIMIT_AS, ulimit -v)",
		"raise that limit (ulimit -v)")
	add(unix.RLIMIT_DATA, "VmData", keptData, "the limit of data (RLIMIT_DATA, ulimit -d)",
		"raise that limit (ulimit -d)")
	return list
}
