package doctor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"memopt/executor"
	"memopt/internal/cleanup"
)

// How often a run's memory is looked at, and after how many looks its processes are listed anew.
const (
	lookEvery = 20 * time.Millisecond
	listEvery = 5
)

// once runs the command in a session of its own, and kills all of the session that is left when it
// ends, when a limit is reached, or when the context ends.
func (t *Trial) once(ctx context.Context, env []string) (Run, error) {
	cmd := exec.Command(t.Command[0], t.Command[1:]...)
	said := &tail{also: t.Output}
	cmd.Env, cmd.Stderr = env, said
	if t.Output != nil {
		cmd.Stdout = said.beside()
	}
	// The session has no terminal, so that a command cannot wait for it. It is killed with this
	// process, too, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // for streams that a process outside the session holds open
	// A new process inherits the peak of the one that starts it (getrusage(2), ru_maxrss).
	inherited := executor.SettleProcessMemory().Peak
	gone := make(chan struct{})
	begin := time.Now()
	item, err := start(cmd, gone)
	if err != nil {
		close(gone)
		return Run{}, err
	}
	w := &watcher{trial: t, session: cmd.Process.Pid, ended: make(chan struct{})}
	stop := make(chan struct{})
	go w.run(ctx, stop)
	waited := cmd.Wait()
	wall := time.Since(begin)
	close(stop)
	<-w.ended
	item.Undo() // the remaining processes of the session
	close(gone)
	return w.result(cmd, waited, wall, inherited, said.String()), nil
}

// start starts a process and returns a function that kills its session. To the system, its parent is
// the thread that started it, whose end kills it, so that thread is kept until it has gone.
func start(cmd *exec.Cmd, gone chan struct{}) (cleanup.Item, error) {
	return cleanup.Make(func() (func(), error) {
		started := make(chan error)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := cmd.Start()
			if started <- err; err == nil {
				<-gone
			}
		}()
		err := <-started
		return func() { killSession(cmd.Process.Pid) }, err
	})
}

// killSession kills all processes of a session, those that are started meanwhile included.
func killSession(session int) {
	const attempts = 10
	for range attempts {
		list := members(session)
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(list) == 0 {
			return
		}
	}
}

// members lists the processes of a session that have not ended.
func members(session int) []int {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []int
	for _, f := range folders {
		pid, err := strconv.Atoi(f.Name())
		if err == nil && sessionOf(pid) == session {
			list = append(list, pid)
		}
	}
	return list
}

// sessionOf reads the session of a process; 0 if it has no session, or has ended. The fields behind
// the name, which may hold any characters, are state, parent, group and session (proc_pid_stat(5)).
func sessionOf(pid int) int {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const state, session = 0, 3
	if len(fields) <= session || fields[state] == "Z" || fields[state] == "X" {
		return 0
	}
	n, _ := strconv.Atoi(fields[session])
	return n
}

// watcher looks at the memory of a session's processes, and ends it at a limit.
type watcher struct {
	trial   *Trial
	session int
	ended   chan struct{}
	peak    int64 // of one process
	tree    int64 // of all together
	cause   string
}

func (w *watcher) run(ctx context.Context, stop chan struct{}) {
	defer close(w.ended)
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	var limit <-chan time.Time
	if w.trial.Time > 0 {
		timer := time.NewTimer(w.trial.Time)
		defer timer.Stop()
		limit = timer.C
	}
	list := []int{w.session}
	for n := 0; ; n++ {
		w.look(list)
		select {
		case <-stop:
			return
		case <-ctx.Done():
			w.end(stopped, stop)
			return
		case <-limit:
			w.end(overTime, stop)
			return
		case <-looks.C:
		}
		if w.trial.Memory > 0 && w.tree > w.trial.Memory {
			w.end(overMemory, stop)
			return
		}
		if n%listEvery == listEvery-1 {
			list = members(w.session)
		}
	}
}

// end kills the session, and waits until its first process has been waited for.
func (w *watcher) end(cause string, stop chan struct{}) {
	w.cause = cause
	killSession(w.session)
	<-stop
}

// look reads the memory of processes.
func (w *watcher) look(list []int) {
	var sum int64
	for _, pid := range list {
		m := executor.ReadProcessMemoryOf(pid)
		sum += m.Resident
		w.peak = max(w.peak, m.Peak)
	}
	w.tree = max(w.tree, sum)
}

// inexact is how far two of the system's counts of the same memory may lie apart.
const inexact = 4 << 20

// result sums up a run. The system's figure for the peak is exact if it is more than the inherited
// memory of the process.
func (w *watcher) result(cmd *exec.Cmd, waited error, wall time.Duration, inherited int64,
	said string,
) Run {
	r := Run{Peak: w.peak, Tree: w.tree, Wall: wall, Ending: Ending{Cause: w.cause, Said: said}}
	s := cmd.ProcessState
	r.CPU = s.UserTime() + s.SystemTime()
	if usage, ok := s.SysUsage().(*syscall.Rusage); ok {
		r.Peak = max(r.Peak, usage.Maxrss<<10)
	}
	r.Small = r.Peak <= inherited+inexact
	r.Tree = max(r.Tree, r.Peak)
	r.Code = s.ExitCode()
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() && r.Cause == "" {
		r.Cause = "ended by signal: " + status.Signal().String()
	}
	if r.Cause == "" && r.Code == 0 && waited != nil && !errors.Is(waited, exec.ErrWaitDelay) {
		r.Cause = waited.Error()
	}
	return r
}
