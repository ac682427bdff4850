package schedule

import (
	"fmt"
	"math"
)

// Scale is the factor of a loss that keeps small gradients of float16 from vanishing. It changes as
// in PyTorch's torch.cuda.amp.GradScaler: if a gradient was not finite, the update is left out and
// the scale falls by half; after Interval updates in a row that were made it doubles. For example,
// it falls from 65536 to 32768 after one overflow. It stays between 1 and the largest power of two
// that a float32 holds.
type Scale struct {
	Value float64 // the scale of the next update
	Good  int64   // how many updates were made since it last changed
	// Growth and Backoff are the scale's factors after Interval good updates and after an update
	// that was left out.
	Growth, Backoff float64
	Interval        int64
}

// NewScale returns GradScaler's defaults: 2^16, ×2 after 2,000 good updates, ×0.5 after one that was
// left out.
func NewScale() Scale {
	return Scale{Value: 1 << 16, Growth: 2, Backoff: 0.5, Interval: 2000}
}

// Check returns an error for an invalid scale, which may come from a file.
func (s *Scale) Check() error {
	switch {
	case !(s.Value >= 1 && s.Value <= math.MaxFloat32):
		return fmt.Errorf("loss scale %v: wanted a number from 1 to %v", s.Value, math.MaxFloat32)
	case s.Interval < 1:
		return fmt.Errorf("loss scale: grows after %d good updates; wanted at least 1", s.Interval)
	case s.Good < 0 || s.Good >= s.Interval:
		return fmt.Errorf("loss scale: had %d good updates in a row; wanted 0 to %d", s.Good, s.Interval-1)
	case !(s.Growth >= 1 && !math.IsInf(s.Growth, 0)):
		return fmt.Errorf("loss scale: grows by the factor %v; wanted a number of at least 1", s.Growth)
	case !(s.Backoff > 0 && s.Backoff <= 1):
		return fmt.Errorf("loss scale: falls by the factor %v; wanted a number above 0 and at most 1", s.Backoff)
	}
	return nil
}

// Update notes whether all gradients of an update were finite, and changes the scale of the next one.
func (s *Scale) Update(finite bool) {
	if !finite {
		s.Value, s.Good = max(1, s.Value*s.Backoff), 0
		return
	}
	if s.Good++; s.Good < s.Interval {
		return
	}
	s.Good = 0
	if grown := s.Value * s.Growth; grown <= math.MaxFloat32 {
		s.Value = grown
	}
}
