package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestPanicIsOneLine: a verb that panics ends with the code of an internal error; where it did is
// shown with -v.
func TestPanicIsOneLine(t *testing.T) {
	for args, traced := range map[string]bool{"": false, "-v": true} {
		var errs bytes.Buffer
		a := &app{stdio: stdio{nil, io.Discard, &errs}, ctx: t.Context(), args: []string{"fall"}}
		if args != "" {
			a.args = append(a.args, args)
		}
		root := a.command()
		root.AddCommand(&cobra.Command{Use: "fall", RunE: func(*cobra.Command, []string) error { panic("over") }})
		var e *exitError
		require.ErrorAs(t, a.execute(root), &e)
		require.Equal(t, exitInternal, e.code)
		require.ErrorContains(t, e, "internal error: over; please report it")
		require.Equal(t, traced, bytes.Contains(errs.Bytes(), []byte("root_test.go")))
	}
}
