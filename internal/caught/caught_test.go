package caught_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/internal/caught"
)

// TestPanic: a panic is an error that knows its place; without one the error stays as it is.
func TestPanic(t *testing.T) {
	run := func(do func()) (err error) {
		defer caught.Panic(&err)
		do()
		return nil
	}
	var e *caught.Error
	require.ErrorAs(t, run(func() { var list []int; _ = list[3] }), &e)
	require.ErrorContains(t, e, "index out of range [3]")
	require.Contains(t, string(e.Stack), "TestPanic")
	require.NoError(t, run(func() {}))
}
