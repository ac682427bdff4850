//go:build unix

package fileio

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const noFollow = unix.O_NOFOLLOW

// umask returns the permissions that new files of this process do not get.
var umask = sync.OnceValue(func() os.FileMode {
	// Linux reports it; elsewhere it can only be read by setting it.
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "Umask:"); ok {
			if mask, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32); err == nil {
				return os.FileMode(mask)
			}
		}
	}
	mask := unix.Umask(0o077)
	unix.Umask(mask)
	return os.FileMode(mask)
})

// keepOwner gives a new file the owner and the group of an older one.
func keepOwner(f *os.File, old os.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	want, ok := old.Sys().(*syscall.Stat_t)
	have, ok2 := info.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// duplicate opens a descriptor of the process a second time; both share their place in the file.
func duplicate(fd int, name string) (*os.File, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(dup), name), nil
}

// identity tells files apart, whatever they are called.
type identity struct{ device, inode uint64 }

func identify(info os.FileInfo, _ string) (identity, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{uint64(s.Dev), s.Ino}, true
}
