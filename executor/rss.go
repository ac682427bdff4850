package executor

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// ProcessMemory is what the operating system says of this process, in bytes; 0 where it
// does not say.
type ProcessMemory struct {
	Resident int64 // VmRSS
	Peak     int64 // VmHWM: the most that was resident
}

// ReadProcessMemory reads /proc/self/status.
func ReadProcessMemory() ProcessMemory {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ProcessMemory{}
	}
	var m ProcessMemory
	for line := range strings.SplitSeq(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "VmRSS:":
			m.Resident = kib << 10
		case "VmHWM:":
			m.Peak = kib << 10
		}
	}
	return m
}

// SettleProcessMemory gives unused memory back to the operating system, makes what is
// resident then the peak, where the system allows that, and returns the state.
func SettleProcessMemory() ProcessMemory {
	debug.FreeOSMemory()
	// 5 resets VmHWM: proc(5). Where it is not allowed, the peak of before stays.
	if f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0); err == nil {
		f.WriteString("5")
		f.Close()
	}
	return ReadProcessMemory()
}
