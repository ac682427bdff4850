//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"memopt/executor"
)

// Serve is the main loop of the second process: it loads the library, reports that, and answers
// requests until the pipe ends. It returns the process's exit status. Signals that a terminal sends
// to both processes are handled by the first one. However that one ends, the pipe with its requests
// ends, and this process with it, whatever the library is doing.
func Serve(in, out *os.File) int {
	// A crash of the library would leave a model's contents in a file.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	defer tidy()
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	terminated := make(chan os.Signal, 1)
	signal.Reset(syscall.SIGTERM)
	signal.Notify(terminated, syscall.SIGTERM)
	go obey(terminated, os.Getppid())
	requests := make(chan request)
	go readRequests(in, requests)
	library, err := Open(Candidates(os.Getenv))
	if err != nil {
		reply(out, failure(err))
		return 0
	}
	reply(out, answer{Hello: &Info{Path: library.Path(), Version: library.Version(), Doubt: library.Doubt()}})
	c := &child{library: library}
	for r := range requests {
		a, err := c.answer(r)
		if err != nil {
			a = failure(err)
		}
		reply(out, a)
	}
	return 0
}

// obey ends the process on SIGTERM, which the system also sends when the parent ends, in case
// something holds the pipe open. This process requests that signal itself, because if it died of it
// earlier, it would not remove its files. While the parent, which may have received the same
// signal, is alive, it has a moment to end this process.
func obey(terminated <-chan os.Signal, parent int) {
	const moment = 2 * time.Second
	runtime.LockOSThread() // the request belongs to it
	unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	<-terminated
	if os.Getppid() == parent {
		time.Sleep(moment)
	}
	tidy()
	os.Exit(128 + int(syscall.SIGTERM))
}

// tidy removes the files that were exchanged.
func tidy() {
	dir := os.Getenv(FolderVariable)
	if dir == "" {
		return
	}
	entries, _ := os.ReadDir(dir) // gone already where the parent was faster
	for _, e := range entries {
		if e.Type().IsRegular() {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	os.Remove(dir)
}

// readRequests passes requests on. When they end, the parent is gone: a running step ends with the
// process.
func readRequests(in io.Reader, requests chan<- request) {
	d := json.NewDecoder(in)
	for {
		var r request
		if err := d.Decode(&r); err != nil {
			tidy()
			os.Exit(0)
		}
		requests <- r
	}
}

// failure is the answer that reports an error.
func failure(err error) answer {
	var m *MissingError
	var r *RuntimeError
	switch {
	case errors.As(err, &m):
		return answer{Missing: &missing{m.Reason}}
	case errors.As(err, &r):
		return answer{Runtime: r}
	}
	return answer{Fault: err.Error()}
}

// child is the state of the second process.
type child struct {
	library *Library
	session *Session
	states  states
	results *Results // of the last step
	residents
}

func (c *child) answer(r request) (answer, error) {
	switch {
	case r.Open != nil && c.session == nil:
		o, err := c.open(r.Open)
		return answer{Opened: o}, err
	case r.Step != nil && c.session != nil:
		s, err := c.step()
		return answer{Step: s}, err
	case r.Restart != nil && c.session != nil:
		return answer{Done: true}, c.states.restart()
	case r.Outputs != nil && c.results != nil:
		files, err := c.outputs(r.Outputs.Dir)
		return answer{Outputs: files}, err
	case r.Load != nil:
		l, err := c.load(c.library, r.Load)
		return answer{Loaded: l}, err
	case r.Turn != nil:
		s, err := c.turn(r.Turn)
		return answer{Step: s}, err
	case r.Unload != nil:
		return answer{Done: true}, c.unload(r.Unload)
	}
	return answer{}, fmt.Errorf("a request that cannot be served now: %+v", r)
}

// open makes the session and brings all inputs into memory, so that they are not counted for a
// step.
func (c *child) open(r *openRequest) (*Opened, error) {
	inputs, err := c.states.load(r)
	if err != nil {
		return nil, err
	}
	s, err := c.library.NewSession(r.Model, r.Options)
	if err != nil {
		return nil, err
	}
	c.session = s
	if err := c.states.feed(s, inputs); err != nil {
		return nil, err
	}
	st, err := s.Stats()
	if err != nil {
		return nil, err
	}
	return &Opened{Arena: st, Resident: executor.SettleProcessMemory().Resident}, nil
}

// step runs the model once. The outputs of the step before are given back first.
func (c *child) step() (*Step, error) {
	if c.results != nil {
		c.results.Close()
		c.results = nil
	}
	executor.SettleProcessMemory()
	begin := time.Now()
	results, err := c.states.run(c.session)
	took := time.Since(begin)
	if err != nil {
		return nil, err
	}
	c.results = results
	after := executor.ReadProcessMemory()
	st, err := c.session.Stats()
	return &Step{Nanoseconds: took.Nanoseconds(), Arena: st, Resident: after.Peak}, err
}

// outputs writes the last step's outputs.
func (c *child) outputs(dir string) ([]File, error) {
	files := []File{}
	for i, name := range c.session.Outputs() {
		t, err := c.results.Tensor(i)
		if err != nil {
			return nil, err
		}
		f := File{Name: name, DType: t.DType, Shape: t.Shape, Path: filepath.Join(dir, fmt.Sprintf("output_%d", i))}
		if err := os.WriteFile(f.Path, t.Data, 0o600); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
