//go:build !linux

package doctor

import (
	"context"
	"errors"
)

// once needs Linux, where the system reports the memory of processes.
func (t *Trial) once(context.Context, []string) (Run, error) {
	return Run{}, errors.New("commands are tried on Linux only")
}
