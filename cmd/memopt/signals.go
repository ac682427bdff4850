package main

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
	errTerminated = errors.New("terminated")
	errHungUp     = errors.New("the terminal was closed")
	errWarned     = errors.New("the system is about to end the program")
)

// asks are the signals that ask the program to end, with the cause that the context then has.
var asks = map[os.Signal]error{
	os.Interrupt: context.Canceled, syscall.SIGTERM: errTerminated, syscall.SIGHUP: errHungUp,
}

// endCode is the exit code after a signal.
func endCode(ctx context.Context) int {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTerminated):
		return exitTerminated
	case errors.Is(cause, errHungUp):
		return exitHungUp
	case errors.Is(cause, errWarned):
		return exitWarned
	}
	return exitInterrupted
}

// How long a program that was asked to end may take for it.
const (
	// patience is for a verb without a result to show: the program does not wait until code deep in
	// a pass or in a foreign library notices the signal.
	patience = 350 * time.Millisecond
	// longPatience is for a verb that has something: a plan that was found is completed, printed
	// and written.
	longPatience = 450 * time.Millisecond
	// cleaning is for removing files that must not be left behind.
	cleaning = 2 * time.Second
)

// keeper says whether a verb has a result that must not be lost. A verb without one may be cut off
// anywhere; after that it has no further effect: keep and release then wait for the end.
type keeper struct {
	mu    sync.Mutex
	keeps bool
	stays bool
	cut   bool
	told  bool
	never chan struct{} // waiters after the cut wait for this; nil except in tests
	shown *statusLine   // the terminal's status line; nil where there is no terminal
}

// line says which line of a terminal has to go when the program prints or ends.
func (k *keeper) line(s *statusLine) {
	k.mu.Lock()
	k.shown = s
	k.mu.Unlock()
}

// status is the line that a terminal shows; nil without a terminal.
func (k *keeper) status() *statusLine {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown
}

// keep says that from now on there is an answer to show.
func (k *keeper) keep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		<-k.never
	}
	k.keeps = true
}

// tell says that it is known, or is for another rank to say, why the program ends: a signal adds no message.
func (k *keeper) tell() {
	k.mu.Lock()
	k.told = true
	k.mu.Unlock()
}

// isTold reports whether tell was called.
func (k *keeper) isTold() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.told
}

// stay says that the verb ends by itself after a signal, however long that takes: only a second
// signal cuts it off.
func (k *keeper) stay() {
	k.keep()
	k.mu.Lock()
	k.stays = true
	k.mu.Unlock()
}

// patient reports whether only a second signal ends the verb.
func (k *keeper) patient() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stays
}

// release says that the remaining work has no result until it is complete.
func (k *keeper) release() {
	k.mu.Lock()
	k.keeps = false
	k.mu.Unlock()
}

// cutOff ends the verb unless it has something to show and reports whether it did. With force it
// does in any case.
func (k *keeper) cutOff(force bool) bool {
	k.mu.Lock()
	if k.keeps && !force {
		k.mu.Unlock()
		return false
	}
	k.cut = true
	k.mu.Unlock()
	return true
}

// watch waits for signals while a verb runs. The first signal that asks for the end ends the
// context, which verbs watch: they stop and show the best result so far. A verb that does not end
// soon enough, because a library hangs, a pipe has no writer or a pass does not watch the context,
// is ended here; so is one that gets a second signal, other than a warning.
type watch struct {
	keeper *keeper
	err    io.Writer
	clean  func()
	exit   func(code int)
}

// untilSignal returns a context that ends with the first signal that asks the program to end, and
// starts to watch. A signal that was ignored when the program started, as nohup and shells do for
// a background process keeps ignoring it.
func (w *watch) untilSignal(parent context.Context) (context.Context, func()) {
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
	over := make(chan struct{})
	go w.run(signals, cancel, over, ctx)
	return ctx, func() {
		signal.Stop(signals)
		close(over)
		cancel(context.Canceled)
	}
}

func (w *watch) run(signals chan os.Signal, cancel context.CancelCauseFunc, over chan struct{}, ctx context.Context) {
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
			short, long = time.After(patience), time.After(longPatience)
		case <-short:
			w.end(ctx, false)
		case <-long:
			if !w.keeper.patient() {
				w.end(ctx, true)
			}
		}
	}
}

// end ends the program, unless it has something to show and need not end yet.
func (w *watch) end(ctx context.Context, force bool) {
	if !w.keeper.cutOff(force) {
		return
	}
	done := make(chan struct{})
	go func() {
		w.keeper.status().end()
		w.clean()
		if !w.keeper.isTold() {
			fmt.Fprintln(w.err, "memopt: "+interrupted)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(cleaning):
	}
	w.exit(endCode(ctx))
}

// quit lets SIGQUIT print all stacks as usual, but without leaving files behind.
func (w *watch) quit() {
	w.clean()
	signal.Reset(syscall.SIGQUIT)
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Signal(syscall.SIGQUIT)
	}
	select {}
}

// interrupted is the line that says that a signal ended the program.
const interrupted = "interrupted"

// reportWriter is where reports go. A report that has begun is completed; broken says that its
// reader has gone away.
type reportWriter struct {
	io.Writer
	keeper *keeper
	broken bool
	last   [2]byte // bytes that were written
	any    bool
}

// blank reports whether the output is empty or ends with a blank line.
func (w *reportWriter) blank() bool { return !w.any || w.last == [2]byte{'\n', '\n'} }

func (w *reportWriter) Write(data []byte) (int, error) {
	w.keeper.keep()
	w.keeper.status().clear()
	n, err := w.Writer.Write(data)
	for _, c := range data[max(0, len(data)-2):] {
		w.last, w.any = [2]byte{w.last[1], c}, true
	}
	w.broken = w.broken || errors.Is(err, syscall.EPIPE)
	return n, err
}
