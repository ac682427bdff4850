package executor

// share is the part of an arena that serves one purpose: it counts its bytes in use. It is not safe
// for concurrent use; its arena is.
type share struct {
	arena       *Arena
	inUse, peak int64 // bytes, rounded up as in the arena
}

// Alloc is the arena's.
func (s *share) Alloc(n int) ([]byte, error) {
	b, err := s.arena.Alloc(n)
	s.inUse += int64(blockSize(len(b)))
	s.peak = max(s.peak, s.inUse)
	return b, err
}

// Free is the arena's.
func (s *share) Free(b []byte) {
	s.arena.Free(b)
	s.inUse -= int64(blockSize(len(b)))
}

// shares divide the memory that a session takes on demand.
type shares struct {
	// planned is for values and workspaces of the main graph whose sizes the plan knows; beside is
	// for all others in the same memory: values whose size depends on data, and subgraphs.
	planned, beside *share
	// host is the host's memory: beside, but for an accelerator.
	host *share
	// copies is for values that nodes copy to the host's memory; nil where none does.
	copies *share
}

func newShares(arena, host *Arena) shares {
	s := shares{planned: &share{arena: arena}, beside: &share{arena: arena}}
	if s.host = s.beside; host != arena {
		s.host = &share{arena: host}
	}
	return s
}

// begin sets the peaks to the bytes in use now.
func (s *shares) begin() {
	s.planned.peak, s.beside.peak = s.planned.inUse, s.beside.inUse
	if s.copies != nil {
		s.copies.peak = s.copies.inUse
	}
}
