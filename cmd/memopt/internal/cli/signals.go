package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// The causes of a context that was ended by a signal other than an interrupt.
var (
	ErrTerminated = errors.New("terminated")
	ErrHungUp     = errors.New("the terminal was closed")
	errWarned     = errors.New("the system is about to end the program")
)

// asks are the signals that ask the program to end, with the cause that the context then has.
var asks = map[os.Signal]error{
	os.Interrupt: context.Canceled, syscall.SIGTERM: ErrTerminated, syscall.SIGHUP: ErrHungUp,
}

// EndCode is the exit code after a signal.
func EndCode(ctx context.Context) int {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrTerminated):
		return ExitTerminated
	case errors.Is(cause, ErrHungUp):
		return ExitHungUp
	case errors.Is(cause, errWarned):
		return exitWarned
	}
	return ExitInterrupted
}

// How long a program that was asked to end may take for it.
const (
	// Patience is for a verb without a result to show: the program does not wait until code deep in
	// a pass or in a foreign library notices the signal.
	Patience = 350 * time.Millisecond
	// LongPatience is for a verb that has something: a plan that was found is completed, printed
	// and written.
	LongPatience = 450 * time.Millisecond
	// Cleaning is for removing files that must not be left behind.
	Cleaning = 2 * time.Second
)

// Keeper says whether a verb has a result that must not be lost. A verb without one may be cut off
// anywhere; after that it has no further effect: keep and release then wait for the end.
type Keeper struct {
	mu    sync.Mutex
	keeps bool
	stays bool
	cut   bool
	told  bool
	Never chan struct{} // waiters after the cut wait for this; nil except in tests
	shown *StatusLine   // the terminal's status line; nil where there is no terminal
}

// line says which line of a terminal has to go when the program prints or ends.
func (k *Keeper) line(s *StatusLine) {
	k.mu.Lock()
	k.shown = s
	k.mu.Unlock()
}

// status is the line that a terminal shows; nil without a terminal.
func (k *Keeper) status() *StatusLine {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown
}

// Keep says that from now on there is an answer to show.
func (k *Keeper) Keep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		<-k.Never
	}
	k.keeps = true
}

// Tell says that it is known, or is for another rank to say, why the program ends: a signal adds no message.
func (k *Keeper) Tell() {
	k.mu.Lock()
	k.told = true
	k.mu.Unlock()
}

// IsTold reports whether tell was called.
func (k *Keeper) IsTold() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.told
}

// Stay says that the verb ends by itself after a signal, however long that takes: only a second
// signal cuts it off.
func (k *Keeper) Stay() {
	k.Keep()
	k.mu.Lock()
	k.stays = true
	k.mu.Unlock()
}

// patient reports whether only a second signal ends the verb.
func (k *Keeper) patient() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stays
}

// Release says that the remaining work has no result until it is complete.
func (k *Keeper) Release() {
	k.mu.Lock()
	k.keeps = false
	k.mu.Unlock()
}

// cutOff ends the verb unless it has something to show and reports whether it did. With force it
// does in any case.
func (k *Keeper) cutOff(force bool) bool {
	k.mu.Lock()
	if k.keeps && !force {
		k.mu.Unlock()
		return false
	}
	k.cut = true
	k.mu.Unlock()
	return true
}

// Watch waits for signals while a verb runs. The first signal that asks for the end ends the
// context, which verbs watch: they stop and show the best result so far. A verb that does not end
// soon enough, because a library hangs, a pipe has no writer or a pass does not watch the context,
// is ended here; so is one that gets a second signal, other than a warning.
type Watch struct {
	Keeper *Keeper
	Err    io.Writer
	Clean  func()
	Exit   func(code int)
	Parent *os.File // as in Stdio
}

// UntilSignal returns a context that ends with the first signal that asks the program to end, and
// starts to watch. A signal that was ignored when the program started, as nohup and shells do for
// a background process keeps ignoring it.
func (w *Watch) UntilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 4)
	for s := range asks {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	if !signal.Ignored(syscall.SIGQUIT) {
		signal.Notify(signals, syscall.SIGQUIT)
	}
	// A closed pipe is an error of the write, so that temporary files are cleaned up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if w.Parent != nil {
		go awaitEnd(w.Parent, signals)
	}
	over := make(chan struct{})
	go w.Run(signals, cancel, over, ctx)
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		cancel(context.Canceled)
	}
}

func (w *Watch) Run(signals chan os.Signal, cancel context.CancelCauseFunc, over chan struct{}, ctx context.Context) {
	var short, long <-chan time.Time
	for {
		select {
		case <-over:
			return
		case s := <-signals:
			switch {
			case s == syscall.SIGQUIT:
				w.quit()
			case ctx.Err() != nil && errors.Is(asks[s], errWarned):
				continue // batch systems warn of an end more than once
			case ctx.Err() != nil:
				w.end(ctx, true)
			}
			cancel(asks[s])
			short, long = time.After(Patience), time.After(LongPatience)
		case <-short:
			w.end(ctx, false)
		case <-long:
			if !w.Keeper.patient() {
				w.end(ctx, true)
			}
		}
	}
}

// end ends the program, unless it has something to show and need not end yet.
func (w *Watch) end(ctx context.Context, force bool) {
	if !w.Keeper.cutOff(force) {
		return
	}
	done := make(chan struct{})
	go func() {
		w.Keeper.status().End()
		w.Clean()
		if !w.Keeper.IsTold() {
			fmt.Fprintln(w.Err, "memopt: "+Interrupted)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(Cleaning):
	}
	w.Exit(EndCode(ctx))
}

// quit lets SIGQUIT print all stacks as usual, but without leaving files behind.
func (w *Watch) quit() {
	w.Clean()
	signal.Reset(syscall.SIGQUIT)
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Signal(syscall.SIGQUIT)
	}
	select {}
}

// Interrupted is the line that says that a signal ended the program.
const Interrupted = "interrupted"

// ReportWriter is where reports go. A report that has begun is completed; broken says that its
// reader has gone away.
type ReportWriter struct {
	io.Writer
	Keeper *Keeper
	Broken bool
	last   [2]byte // bytes that were written
	any    bool
}

// blank reports whether the output is empty or ends with a blank line.
func (w *ReportWriter) blank() bool { return !w.any || w.last == [2]byte{'\n', '\n'} }

func (w *ReportWriter) Write(data []byte) (int, error) {
	w.Keeper.Keep()
	w.Keeper.status().Clear()
	n, err := w.Writer.Write(data)
	for _, c := range data[max(0, len(data)-2):] {
		w.last, w.any = [2]byte{w.last[1], c}, true
	}
	w.Broken = w.Broken || errors.Is(err, syscall.EPIPE)
	return n, err
}
