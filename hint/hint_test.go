package hint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/hint"
)

// flags is a style as a program has it.
func flags(u hint.Use) string {
	if u.Value == "" {
		return "<" + u.Option.String() + ">"
	}
	return "<" + u.Option.String() + "=" + u.Value + ">"
}

// TestNames: every option has a name of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for o := range hint.NumOptions {
		require.NotEmpty(t, o.String(), "option %d", int(o))
		require.False(t, seen[o.String()], "two options are called %v", o)
		seen[o.String()] = true
	}
}

// TestErrors: a text has all advice in one style, however deep it lies in the tree of an error, and
// the tree stays open for errors.Is.
func TestErrors(t *testing.T) {
	cause := errors.New("no size")
	inner := hint.Errorf("%q is unknown: bind it with %v: %w", "seq", hint.Dims.With("seq=2"), cause)
	for _, c := range []struct {
		err           error
		library, flag string
	}{
		{cause, "no size", "no size"},
		{inner, `"seq" is unknown: bind it with Dims seq=2: no size`, `"seq" is unknown: bind it with <Dims=seq=2>: no size`},
		{fmt.Errorf("a file: %w", inner), `a file: "seq" is unknown: bind it with Dims seq=2: no size`,
			`a file: "seq" is unknown: bind it with <Dims=seq=2>: no size`},
		{errors.Join(hint.Errorf("say %v", hint.Zero), hint.Errorf("say %v", hint.Batch)), "say Zero\nsay Batch",
			"say <Zero>\nsay <Batch>"},
		{hint.Errorf("outer %v: %v", hint.Init, inner), `outer Begin: "seq" is unknown: bind it with Dims seq=2: no size`,
			`outer <Begin>: "seq" is unknown: bind it with <Dims=seq=2>: no size`},
	} {
		require.EqualError(t, c.err, c.library)
		require.Equal(t, c.library, hint.Style(nil).Error(c.err))
		require.Equal(t, c.flag, hint.Style(flags).Error(c.err))
	}
	require.ErrorIs(t, fmt.Errorf("a file: %w", inner), cause)
}

// TestSprintf: sentences take advice and errors in the same way.
func TestSprintf(t *testing.T) {
	err := hint.Errorf("bind it with %v", hint.Dims)
	require.Equal(t, "3 left; Batch lists them: bind it with Dims",
		hint.Style(nil).Sprintf("%d left; %v lists them: %v", 3, hint.Batch, err))
	require.Equal(t, "3 left; <Batch> lists them: bind it with <Dims>",
		hint.Style(flags).Sprintf("%d left; %v lists them: %v", 3, hint.Batch, err))
}
