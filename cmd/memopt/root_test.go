package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestPanicIsOneLine: a verb that panics ends with the code of an internal error; where it did is
// shown with -v.
func TestPanicIsOneLine(t *testing.T) {
	for args, traced := range map[string]bool{"": false, "-v": true} {
		var errs bytes.Buffer
		a := &cli.App{Stdio: cli.Stdio{In: nil, Out: io.Discard, Err: &errs}, Ctx: t.Context(), Args: []string{"fall"}}
		if args != "" {
			a.Args = append(a.Args, args)
		}
		root := command(a)
		root.AddCommand(&cobra.Command{Use: "fall", RunE: func(*cobra.Command, []string) error { panic("over") }})
		var e *cli.ExitError
		require.ErrorAs(t, execute(a, root), &e)
		require.Equal(t, cli.ExitInternal, e.Code)
		require.ErrorContains(t, e, "internal error: over; please report it")
		require.Equal(t, traced, bytes.Contains(errs.Bytes(), []byte("root_test.go")))
	}
}
