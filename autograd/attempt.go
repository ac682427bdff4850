package autograd

import (
	"errors"
	"fmt"
)

// raised asks for another attempt with a newer operator set.
type raised struct{ version int64 }

func (r *raised) Error() string { return fmt.Sprintf("needs operator set %d", r.version) }

// attempts makes a graph at a version of ONNX's operators, and anew at a newer one as long as an
// attempt asks for that with a *raised. It returns the version of the last attempt, too.
func attempts(version int64, attempt func(version int64) (*Joint, error)) (*Joint, int64, error) {
	for {
		out, err := attempt(version)
		var r *raised
		switch {
		case !errors.As(err, &r):
			return out, version, err
		case r.version <= version:
			return nil, version, fmt.Errorf("autograd: asked twice for operator set %d", r.version)
		}
		version = r.version
	}
}

// caught turns a panic of an emitter, as recover returns it, into an error: nil without a panic, a
// *raised if a newer operator set is needed. Any other panic goes on.
func caught(thrown any) error {
	switch r := thrown.(type) {
	case nil:
		return nil
	case failure:
		return r.err
	case raise:
		return &raised{r.version}
	}
	panic(thrown)
}
