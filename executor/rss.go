package executor

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// ProcessMemory is the memory of a process as the operating system reports it, in bytes; 0 if it
// does not.
type ProcessMemory struct {
	Resident int64 // VmRSS
	Peak     int64 // VmHWM: the most that was resident
}

// ReadProcessMemory reads /proc/self/status.
func ReadProcessMemory() ProcessMemory { return readStatus("self") }

// ReadProcessMemoryOf is ReadProcessMemory for the process with the given number, for example that
// of ONNX Runtime.
func ReadProcessMemoryOf(pid int) ProcessMemory { return readStatus(strconv.Itoa(pid)) }

// readStatus reads a process's status.
func readStatus(process string) ProcessMemory {
	data, err := os.ReadFile("/proc/" + process + "/status")
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

// SettleProcessMemory returns unused memory to the operating system, resets the peak to the
// remaining resident bytes, if the system allows it, and returns the state.
func SettleProcessMemory() ProcessMemory {
	debug.FreeOSMemory()
	// 5 resets VmHWM: proc(5). If that is not allowed, the old peak remains.
	if f, err := os.OpenFile("/proc/self/clear_refs", os.O_WRONLY, 0); err == nil {
		f.WriteString("5")
		f.Close()
	}
	return ReadProcessMemory()
}
