package fileio

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// descriptor reports whether a path is a name of one of the process's own descriptors, as
// /dev/stdout, /dev/fd/3 and /proc/self/fd/3 are: a rename would put a file in that name's place.
func descriptor(path string) (fd int, ok bool) {
	const links = 16 // more than occur in such a name on any system
	for range links {
		if path == "/dev/stdout" {
			return 1, true
		} else if path == "/dev/stderr" {
			return 2, true
		}
		dir, base := filepath.Split(path)
		if number, err := strconv.Atoi(base); err == nil && number >= 0 && ownDescriptors(dir) {
			return number, true
		}
		target, err := os.Readlink(path)
		if err != nil {
			return 0, false
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return 0, false
}

// ownDescriptors reports whether a folder lists the process's descriptors.
func ownDescriptors(dir string) bool {
	dir = filepath.Clean(dir)
	if dir == "/dev/fd" {
		return true
	}
	real, err := filepath.EvalSymlinks(dir)
	own := fmt.Sprintf("/proc/%d/", os.Getpid())
	return err == nil && (real == own+"fd" || strings.HasPrefix(real, own+"task/") && filepath.Base(real) == "fd")
}
