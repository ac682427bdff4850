package executor

import (
	"fmt"

	"memopt/graph"
	"memopt/internal/mapfile"
	"memopt/internal/memlimit"
)

// checkFit makes sure, before the first step, that the steps fit into the available memory: the
// arena, on the host, the caller's own memory, and the weights that stay in their files. The system
// can drop the weights and read them again, but every step needs them all: if they do not fit,
// every step would wait for the disk for each of them.
func (s *Session) checkFit() error {
	if s.virtual || s.opts.sizesOnly {
		return nil
	}
	arena := s.root.space.onHost(s.root.arenaBytes)
	held := s.arena.Stats()
	arena = max(0, arena-(held.Reserved-held.InUse))
	copies := s.host.bytes
	if h := s.opts.Home; h != nil && h.Copies != nil {
		copies = 0 // in a file of the home
	}
	if err := memlimit.Check(arena+copies+s.inFiles+s.opts.Beside, "%s", s.parts()); err != nil {
		return fmt.Errorf("%w%s", err, s.liveAtPeak())
	}
	return nil
}

// parts lists the parts of a step's memory.
func (s *Session) parts() string {
	text := fmt.Sprintf("the planned arena of %d bytes", s.root.arenaBytes)
	if s.inFiles > 0 {
		text += fmt.Sprintf(", weights of %d bytes in their files", s.inFiles)
	}
	if s.host.bytes > 0 {
		text += fmt.Sprintf(", copies of values on the host of %d bytes", s.host.bytes)
	}
	if s.opts.Beside > 0 {
		text += fmt.Sprintf(", copies of outputs of %d bytes", s.opts.Beside)
	}
	return text
}

// stayInFile counts a weight that the executor reads where it lies in a mapped file, before it is
// read.
func (s *Session) stayInFile(name string, raw []byte) error {
	m := mapfile.Holding(raw)
	if m == nil {
		return nil
	}
	s.inFiles += int64(len(raw))
	return memlimit.Check(s.inFiles, "weights up to %q", name)
}

// checkFiles checks the mapped files that hold a step's inputs: a file that has become shorter must
// be detected before a C library reads it.
func (st *step) checkFiles() error {
	var last *mapfile.File
	for _, t := range st.in {
		if t == nil {
			continue
		}
		if m := mapfile.Holding(t.Data); m != nil && m != last {
			if err := m.Check(); err != nil {
				return err
			}
			last = m
		}
	}
	return nil
}

// checkFiles checks the files that hold the session's weights: results are useless if one of them
// has changed meanwhile.
func (s *Session) checkFiles() error {
	if s.inFiles == 0 {
		return nil
	}
	for i := range s.root.g.Values {
		if s.root.g.Values[i].Data == nil {
			continue
		}
		if m := mapfile.Holding(s.root.vals[graph.ValueID(i)].Data); m != nil {
			if err := m.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}
