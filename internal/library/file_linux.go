package library

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// File returns the file that is mapped at an address, "" if no file is: the kernel knows, whatever
// name the library was asked for by.
func File(address uintptr) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil || address < from || address >= to {
			continue
		}
		if at := strings.IndexByte(line, '/'); at >= 0 {
			return strings.TrimSuffix(strings.TrimSuffix(line[at:], "\n"), " (deleted)")
		}
	}
	return ""
}

// foreign says that a file belongs to a user who is neither this one nor root.
func foreign(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Sprintf("%s belongs to user %d", path, s.Uid)
	}
	return ""
}
