// Package schedule has the learning rate and the loss scale of each update of a training job.
//
// The rates are those of Hugging Face transformers' get_scheduler on top of PyTorch's LambdaLR. With
// W updates of warm-up of T in all, update u, counted from 0, has the rate
//
//	LR·u/W                                              where u < W, in the kinds with a warm-up
//	LR                                                  constant, constant_with_warmup
//	MinLR + (LR-MinLR)·(T-u)/(T-W)                      linear
//	MinLR + (LR-MinLR)·(1+cos(π·(u-W)/(T-W)))/2         cosine, half a cycle
//
// and MinLR from update T on. So the first update of a warm-up has the rate 0, as in transformers.
// Without MinLR these are transformers' formulas; the minimum stands in them as in nanoGPT's get_lr.
// Beyond the last update T, transformers' cosine rises again; here it stays at the minimum.
package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The kinds of schedules, by the names of transformers' SchedulerType.
const (
	Linear             = "linear"
	Cosine             = "cosine"
	Constant           = "constant"
	ConstantWithWarmup = "constant_with_warmup"
)

// Kinds lists them.
var Kinds = []string{Linear, Cosine, Constant, ConstantWithWarmup}

// Schedule gives each update its learning rate.
type Schedule struct {
	Kind   string  // one of Kinds
	LR     float64 // the largest rate
	MinLR  float64 // the rate at the end; only linear and cosine have one
	Warmup int64   // updates until LR is reached; 0 for constant
	Total  int64   // updates in all; the constant kinds do not ask for it
}

// decays reports whether the rate falls behind the warm-up.
func (s Schedule) decays() bool { return s.Kind == Linear || s.Kind == Cosine }

// Check returns an error for an invalid schedule.
func (s Schedule) Check() error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("schedule %s: %s", s.Kind, fmt.Sprintf(format, args...))
	}
	switch {
	case !slices.Contains(Kinds, s.Kind):
		return fmt.Errorf("schedule %q: wanted one of %s", s.Kind, strings.Join(Kinds, ", "))
	case !(s.LR >= 0 && !math.IsInf(s.LR, 0)):
		return fault("the learning rate is %v; it must be a number and at least 0", s.LR)
	case !(s.MinLR >= 0 && s.MinLR <= s.LR):
		return fault("the minimum rate is %v; it must lie between 0 and the learning rate, %v", s.MinLR, s.LR)
	case s.MinLR != 0 && !s.decays():
		return fault("has no minimum rate, got %v: its rate does not fall; take linear or cosine", s.MinLR)
	case s.Warmup < 0:
		return fault("has %d updates of warm-up; there cannot be fewer than 0", s.Warmup)
	case s.Warmup != 0 && s.Kind == Constant:
		return fault("has no warm-up, got %d updates; take constant_with_warmup", s.Warmup)
	case s.decays() && s.Total < 1:
		return fault("has %d updates in all; its rate falls until the last one, so there must be at least 1", s.Total)
	}
	return nil
}

// At returns the rate of an update, counted from 0. A warm-up that is longer than the job is cut off
// by the job's end.
func (s Schedule) At(update int64) float64 {
	if s.Kind != Constant && update < s.Warmup {
		return s.LR * (float64(update) / float64(s.Warmup))
	}
	switch s.Kind {
	case Linear:
		return s.mix(max(0, 1-s.progress(update)))
	case Cosine:
		return s.mix((1 + math.Cos(math.Pi*min(s.progress(update), 1))) / 2)
	}
	return s.LR
}

// progress is the share of the updates behind the warm-up that came before one.
func (s Schedule) progress(update int64) float64 {
	return float64(update-s.Warmup) / float64(max(1, s.Total-s.Warmup))
}

// mix lies between the minimum, at 0, and the learning rate, at 1.
func (s Schedule) mix(share float64) float64 {
	return s.MinLR + share*(s.LR-s.MinLR)
}
