package ortengine

import (
	"context"
	"time"

	"memopt/executor"
	"memopt/executor/ort"
	"memopt/executor/verify"
	"memopt/internal/cleanup"
	"memopt/internal/memlimit"
)

// steps is a side that ONNX Runtime has open.
type steps struct {
	side    verify.Side
	bound   *bound // the model as the runtime has it
	warmup  int    // steps that states forget
	done    int
	dir     string // the files of the model and its tensors
	folder  cleanup.Item
	process *ort.Process // nil if closed
	opened  *ort.Opened
	pattern bool // the memory pattern is on
	run     *verify.Run
}

// Run is the results and the memory of the steps so far.
func (s *steps) Run() *verify.Run { return s.run }

// Step makes the runtime execute one step.
func (s *steps) Step(context.Context) (time.Duration, error) {
	if s.done > 0 && s.done == s.warmup && len(s.bound.states) > 0 {
		if err := s.process.Restart(); err != nil {
			return 0, s.failed(err)
		}
	}
	s.done++
	step, err := s.process.Step()
	if err != nil {
		return 0, s.failed(err)
	}
	s.note(step)
	return time.Duration(step.Nanoseconds), nil
}

// note records how much memory a step took.
func (s *steps) note(step *ort.Step) {
	arena, resident := int64(0), int64(0)
	if step.Arena.Known {
		arena = step.Arena.MaxInUse - s.opened.Arena.InUse
	}
	if step.Resident > 0 {
		resident = max(step.Resident-s.opened.Resident, 0)
	}
	r, facts := s.run, s.run.Runtime
	if r.Measured.Runs == 0 {
		r.Measured.Arena, r.Measured.Live, r.Resident = arena, arena, resident
		r.Arena = executor.ArenaStats{InUse: step.Arena.InUse, Peak: step.Arena.MaxInUse,
			Reserved: step.Arena.Total}
		facts.Bounded = step.Arena.Known && step.Arena.MaxInUse == s.opened.Arena.MaxInUse &&
			step.Arena.MaxInUse > step.Arena.InUse
	} else {
		facts.LaterArena = max(facts.LaterArena, arena)
		facts.LaterResident = max(facts.LaterResident, resident)
		r.Arena.Reserved = max(r.Arena.Reserved, step.Arena.Total)
	}
	r.Measured.Runs++
}

// Finish fetches the outputs. If there was only one step and the memory pattern is on, another one
// measures the memory of later steps; its failure does not affect the requested step.
func (s *steps) Finish(ctx context.Context) error {
	outputs, err := s.process.Outputs(s.dir)
	if err != nil {
		return s.failed(err)
	}
	for _, o := range outputs {
		s.run.Outputs = append(s.run.Outputs, verify.Output{Name: o.Name, Tensor: o.Tensor})
	}
	if s.run.Measured.Runs == 1 && s.pattern && free(2*s.taken()) {
		if step, err := s.process.Step(); err == nil {
			reserved := s.run.Arena.Reserved
			s.note(step)
			s.run.Measured.Runs, s.run.Arena.Reserved = 1, reserved
		}
	}
	return ctx.Err()
}

// taken is the most that a step took, by either count.
func (s *steps) taken() int64 { return max(s.run.Measured.Arena, s.run.Resident) }

// Shares reports whether there is memory for another process of the same size: it may take as much
// for its session as for a step, while this one may grow as well.
func (s *steps) Shares() bool { return free(4 * s.taken()) }

// Fits returns true: Shares of the other side covers it.
func (*steps) Fits() bool { return true }

// free reports whether there is memory for so many bytes; a tenth stays for the rest of the
// machine.
func free(n int64) bool {
	limit, ok := memlimit.Available()
	return !ok || n <= limit.Bytes/10*9
}

// Close ends the process and removes its files.
func (s *steps) Close() error {
	if s.process != nil {
		s.process.Close()
		s.process = nil
	}
	s.folder.Undo()
	return nil
}
