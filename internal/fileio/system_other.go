//go:build !unix

package fileio

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const noFollow = 0

func umask() os.FileMode { return 0o022 }

// keepOwner has no effect: the folder's settings decide who owns new files.
func keepOwner(*os.File, os.FileInfo) error { return nil }

func duplicate(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }

// identity tells files apart by their path, since this system offers no file numbers.
type identity struct{ path string }

func identify(_ os.FileInfo, path string) (identity, bool) {
	full, err := filepath.Abs(path)
	if real, e := filepath.EvalSymlinks(full); e == nil {
		full = real
	}
	return identity{strings.ToLower(full)}, err == nil && path != ""
}
