//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// TestUntilSignal: the context says which signal ended it.
func TestUntilSignal(t *testing.T) {
	w := &cli.Watch{Keeper: &cli.Keeper{}, Err: &strings.Builder{}, Exit: func(int) { t.Error("the program ended") }}
	for asked, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		if signal.Ignored(asked) {
			continue // as under nohup
		}
		ctx, stop := w.UntilSignal(t.Context())
		require.NoError(t, ctx.Err())
		require.NoError(t, syscall.Kill(os.Getpid(), asked))
		<-ctx.Done()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.Equal(t, code, cli.EndCode(ctx))
		stop()
	}
	ctx, stop := w.UntilSignal(t.Context())
	require.NoError(t, ctx.Err())
	stop()
	<-ctx.Done()
	require.Equal(t, cli.ExitInterrupted, cli.EndCode(ctx))
}

// watched is a watch whose signals and end a test makes and sees. The clock is the test's.
type watched struct {
	cli.Watch
	signals chan os.Signal
	ctx     context.Context
	said    strings.Builder
	ended   chan int
	over    chan struct{}
}

func newWatched(t *testing.T) *watched {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &watched{signals: make(chan os.Signal), ctx: ctx, ended: make(chan int, 1), over: make(chan struct{})}
	w.Keeper, w.Err, w.Clean = &cli.Keeper{}, &w.said, func() {}
	w.Exit = func(code int) {
		w.ended <- code
		<-w.over
	}
	go w.Run(w.signals, cancel, w.over, ctx)
	return w
}

// after waits, and returns the code that the program ended with by then, or 0.
func (w *watched) after(d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	select {
	case code := <-w.ended:
		return code
	default:
		return 0
	}
}

// TestWatch: what does not end by itself is ended, soon where there is nothing to show, and at once
// by a second signal.
func TestWatch(t *testing.T) {
	for name, c := range map[string]func(t *testing.T, w *watched){
		"deaf": func(t *testing.T, w *watched) {
			w.signals <- syscall.SIGTERM
			require.Zero(t, w.after(cli.Patience-1))
			require.Error(t, w.ctx.Err())
			require.Equal(t, 143, w.after(2))
			require.Equal(t, "memopt: interrupted\n", w.said.String())
		},
		"told": func(t *testing.T, w *watched) {
			w.Keeper.Tell()
			w.signals <- syscall.SIGTERM
			require.Equal(t, 143, w.after(cli.Patience+1))
			require.Empty(t, w.said.String())
		},
		"with something to show": func(t *testing.T, w *watched) {
			w.Keeper.Keep()
			w.signals <- os.Interrupt
			require.Zero(t, w.after(cli.LongPatience-1))
			require.Equal(t, 130, w.after(2))
		},
		"nothing to show any more": func(t *testing.T, w *watched) {
			w.Keeper.Keep()
			w.Keeper.Release()
			w.signals <- os.Interrupt
			require.Equal(t, 130, w.after(cli.Patience+1))
		},
		"twice": func(t *testing.T, w *watched) {
			w.Keeper.Keep()
			w.signals <- os.Interrupt
			require.Zero(t, w.after(time.Millisecond))
			w.signals <- syscall.SIGTERM
			require.Equal(t, 130, w.after(0), "the first signal says why")
		},
		"cleaning that hangs": func(t *testing.T, w *watched) {
			w.Clean = func() { <-w.over }
			w.signals <- syscall.SIGHUP
			require.Zero(t, w.after(cli.Patience+cli.Cleaning-1))
			require.Equal(t, 129, w.after(2))
		},
		"shown too late": func(t *testing.T, w *watched) {
			w.signals <- os.Interrupt
			require.Equal(t, 130, w.after(cli.Patience+1))
			w.Keeper.Never = w.over
			begun := false
			go func() {
				w.Keeper.Keep()
				begun = true
			}()
			synctest.Wait()
			require.False(t, begun, "a report began after the end")
		},
		"over": func(t *testing.T, w *watched) {
			w.signals <- os.Interrupt
			time.Sleep(time.Millisecond)
			close(w.over)
			require.Zero(t, w.after(time.Minute))
			w.over = make(chan struct{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched(t)
				c(t, w)
				close(w.over)
			})
		})
	}
}
