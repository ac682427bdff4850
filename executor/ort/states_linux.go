//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"memopt/executor"
)

// states are the inputs of a session that steps update, and the feeds of its steps. In the zero
// value every step reads the same inputs.
type states struct {
	list  []State
	files []File // by state: its first value
	// mine has the buffers of each state: the input's, and the output's, which may be the same.
	mine [][2]*executor.Tensor
	// Steps take the feeds in turn: in the second one the buffers have changed places. Nil: all
	// states are in place, and the first feed is that of all steps.
	feeds [2]*Feed
	steps int
	torn  bool // a step failed, which may have written some of the states
}

// load brings the inputs of a request into memory. Those that are states get memory of their own.
func (s *states) load(r *openRequest) (inputs []Named, err error) {
	s.list = r.States
	s.files, s.mine = make([]File, len(s.list)), make([][2]*executor.Tensor, len(s.list))
	for _, f := range r.Inputs {
		t := &executor.Tensor{DType: f.DType, Shape: f.Shape}
		at := slices.IndexFunc(s.list, func(p State) bool { return p.Input == f.Name })
		if at < 0 {
			err = mapTensor(t, f)
		} else {
			s.files[at] = f
			err = s.keep(at, t)
		}
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", f.Name, err)
		}
		inputs = append(inputs, Named{f.Name, t})
	}
	for at, p := range s.list {
		if s.mine[at][0] == nil {
			return nil, fmt.Errorf("state %q: the input is not given", p.Input)
		}
	}
	return inputs, s.restart()
}

// keep makes the buffers of a state.
func (s *states) keep(at int, t *executor.Tensor) (err error) {
	if t.Data, err = ownMemory(t); err != nil {
		return err
	}
	second := *t
	if !s.list[at].InPlace {
		if second.Data, err = ownMemory(t); err != nil {
			return err
		}
	}
	s.mine[at] = [2]*executor.Tensor{t, &second}
	return nil
}

// feed prepares the feeds of all steps.
func (s *states) feed(session *Session, inputs []Named) error {
	feeds := 1
	if slices.ContainsFunc(s.list, func(p State) bool { return !p.InPlace }) {
		feeds = len(s.feeds)
	}
	for i := range feeds {
		given := slices.Clone(inputs)
		for at, p := range s.list {
			k := slices.IndexFunc(given, func(n Named) bool { return n.Name == p.Input })
			given[k].Tensor = s.mine[at][i]
		}
		f, err := session.Feed(given)
		if err != nil {
			return err
		}
		s.feeds[i] = f
		for at, p := range s.list {
			if err := f.Bind(p.Output, s.mine[at][1-i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// run executes a step.
func (s *states) run(session *Session) (*Results, error) {
	if s.torn {
		return nil, errors.New("an earlier step failed, which may have written some states and not others: " +
			"no step can go on with them")
	}
	f := s.feeds[0]
	if s.steps%2 == 1 && s.feeds[1] != nil {
		f = s.feeds[1]
	}
	r, err := session.Run(f)
	s.torn = err != nil && len(s.list) > 0
	s.steps++
	return r, err
}

// restart resets all states to their first values.
func (s *states) restart() error {
	for at, f := range s.files {
		if err := readTensor(s.mine[at][0], f); err != nil {
			return fmt.Errorf("input %q: %w", f.Name, err)
		}
	}
	s.steps, s.torn = 0, false
	return nil
}

// ownMemory returns zeroed memory for the data of a tensor, all pages at once.
func ownMemory(t *executor.Tensor) ([]byte, error) {
	n, ok := executor.Bytes(t.DType, t.Shape)
	if !ok || n == 0 {
		return nil, nil
	}
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
}

// mapTensor maps a tensor's file into memory, all pages at once. A write to it would stay in this
// process.
func mapTensor(t *executor.Tensor, f File) error {
	file, n, err := openTensor(t, f)
	if err != nil || n == 0 {
		return err
	}
	defer file.Close()
	t.Data, err = unix.Mmap(int(file.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	return err
}

// readTensor reads a tensor's file into the tensor's memory.
func readTensor(t *executor.Tensor, f File) error {
	file, n, err := openTensor(t, f)
	if err != nil || n == 0 {
		return err
	}
	defer file.Close()
	_, err = file.ReadAt(t.Data, 0)
	return err
}

// openTensor opens a tensor's file, which must have as many bytes as the tensor. The caller closes
// it, unless the tensor is empty.
func openTensor(t *executor.Tensor, f File) (*os.File, int, error) {
	n, ok := executor.Bytes(t.DType, t.Shape)
	if !ok || n == 0 {
		return nil, 0, nil
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, 0, err
	}
	if info, err := file.Stat(); err != nil || info.Size() != int64(n) {
		file.Close()
		return nil, 0, fmt.Errorf("%s holds no %v of %d bytes", f.Path, t, n)
	}
	return file, n, nil
}
