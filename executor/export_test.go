package executor

import "time"

// Replay is a clock of three threads for tests: that of the nodes, which advances by Work and by waiting, and those
// of the two directions of a link, which its own times are.
type Replay struct{ at time.Duration }

// Work lets the thread that runs the nodes work for a time.
func (r *Replay) Work(d time.Duration) { r.at += d }

// At is the present of that thread.
func (r *Replay) At() time.Duration { return r.at }

func (r *Replay) now() time.Duration { return r.at }

func (r *Replay) ended(t time.Duration) { r.at = max(r.at, t) }

func (r *Replay) until(time.Duration, *time.Timer, <-chan struct{}, <-chan struct{}) {}

// SetClock gives the copies of a session another clock, before its first run.
func SetClock(s *Session, r *Replay) { s.mover.clock = r }
