package parallel

import (
	"fmt"
	"strconv"

	"memopt/hint"
)

// Layout is the number of devices that share a training step, by kind of parallelism. Zero fields
// stand for 1, ZeRO stage 0 for no sharing.
type Layout struct {
	DP   int // replicas, each with data of its own
	Zero int // 1: replicas share the optimizer's state; 2: gradients, too; 3: weights, too
	TP   int // devices that divide tensors among them
	PP   int // stages of the pipeline
	// Microbatches is how many micro-batches make an update.
	Microbatches int
	Interleave   int // stages on each device
	// SequenceParallel divides along the sequence the values that tensor parallel leaves whole.
	SequenceParallel bool
}

// WithDefaults returns the layout with 1 for fields that are 0.
func (l Layout) WithDefaults() Layout {
	for _, n := range []*int{&l.DP, &l.TP, &l.PP, &l.Microbatches, &l.Interleave} {
		if *n == 0 {
			*n = 1
		}
	}
	return l
}

// Devices is how many devices there are in all.
func (l Layout) Devices() int {
	l = l.WithDefaults()
	return l.DP * l.TP * l.PP
}

// maxDevices bounds each number of a layout, so that products of them are no overflow.
const maxDevices = 1 << 16

// Check reports a contradictory layout.
func (l Layout) Check() error {
	l = l.WithDefaults()
	for _, n := range []struct {
		option hint.Option
		value  int
	}{{hint.Replicas, l.DP}, {hint.TensorParallel, l.TP}, {hint.Pipeline, l.PP}, {hint.Microbatches, l.Microbatches},
		{hint.Interleave, l.Interleave}} {
		if n.value < 1 || n.value > maxDevices {
			return fmt.Errorf("%v is %d, wanted 1 to %d", n.option, n.value, maxDevices)
		}
	}
	switch {
	case l.Zero < 0 || l.Zero > 3:
		return fmt.Errorf("%v is %d, wanted 0, 1, 2 or 3", hint.Zero, l.Zero)
	case l.SequenceParallel && l.TP == 1:
		return fmt.Errorf("%v divides the values that %v leaves whole: it needs %v or more", hint.SequenceParallel,
			hint.TensorParallel, hint.TensorParallel.With("2"))
	case l.Interleave > 1 && l.PP == 1:
		return fmt.Errorf("%v needs %v or more", hint.Interleave.With(strconv.Itoa(l.Interleave)),
			hint.Pipeline.With("2"))
	case l.Interleave > 1 && l.Microbatches%l.PP != 0:
		return fmt.Errorf("%v needs %v that are a multiple of %v: got %d and %d", hint.Interleave, hint.Microbatches,
			hint.Pipeline, l.Microbatches, l.PP)
	}
	return nil
}
