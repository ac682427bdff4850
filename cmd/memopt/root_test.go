package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestPanicIsOneLine: a verb that panics ends with the code of an internal error; where it did is shown with -v.
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

// TestUntilSignal: the context says which signal ended it.
func TestUntilSignal(t *testing.T) {
	for _, c := range []struct {
		signal     syscall.Signal
		terminated bool
	}{{syscall.SIGINT, false}, {syscall.SIGTERM, true}} {
		ctx, stop := untilSignal(t.Context())
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, self.Signal(c.signal))
		<-ctx.Done()
		require.True(t, errors.Is(ctx.Err(), context.Canceled))
		require.Equal(t, c.terminated, terminated(ctx))
		stop()
	}
	ctx, stop := untilSignal(t.Context())
	require.NoError(t, ctx.Err())
	stop()
	<-ctx.Done()
	require.False(t, terminated(ctx))
}
