//go:build !linux

package doctor

import (
	"context"
	"errors"
)

// once needs Linux, where the system says what memory processes have.
func (t *Trial) once(context.Context, []string) (Run, error) {
	return Run{}, errors.New("commands are tried on Linux only")
}
