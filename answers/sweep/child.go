package sweep

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"time"

	"memopt/internal/cleanup"
)

// childDelay is how long to wait, after a child's end, for others that hold its streams.
const childDelay = time.Second

// runChild runs a process in a group of its own, so that Ctrl-C reaches it once, through this one. It
// is asked to end when the context ends, and killed when this process ends, for any reason. The first
// error is how it ended, the second that it cannot be started.
func runChild(ctx context.Context, cmd *exec.Cmd) (waited, err error) {
	apart(cmd)
	cmd.WaitDelay = childDelay
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// To Linux, the parent of a process is the thread that started it, whose end kills it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	item, err := cleanup.Make(func() (func(), error) {
		err := cmd.Start()
		return func() { kill(cmd.Process) }, err
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		select {
		case <-ended:
		case <-ctx.Done():
			ask(cmd.Process)
		}
	}()
	waited = cmd.Wait()
	close(ended)
	<-asked
	item.Keep() // it has ended: there is no process to kill
	return waited, nil
}

// kill ends a process at once.
func kill(p *os.Process) {
	if p != nil {
		_ = p.Kill() // it may have ended
	}
}
