//go:build !linux

package fileio

import "errors"

// exchange is a call of Linux alone.
func exchange(_, _ string) error { return errors.ErrUnsupported }
