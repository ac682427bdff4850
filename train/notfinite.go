package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/autograd"
	"memopt/executor/resident"
	"memopt/hint"
	"memopt/train/data"
)

// errSkip is the error of a batch that is left out.
var errSkip = errors.New("skip")

// judge decides the fate of a step whose loss is not finite: the job stops, or the batch is left
// out. In a graph with a loss scale, the scale changes.
func (j *job) judge(ctx context.Context, x *part, micro int64, b *data.Batch, err error) error {
	var bad *resident.NotFiniteError
	if !errors.As(err, &bad) {
		return err
	}
	if bad.Value == autograd.CountedOutput {
		bad.Value = j.Steps.Loss
	}
	if j.OnNaN == SkipOnNaN {
		j.Observer.Warn(fmt.Sprintf("update %d: %s is not finite: batch %d of epoch %d is left out", j.done+1,
			bad.Value, b.Index, b.Epoch))
		return errSkip
	}
	stop := &NotFiniteError{Update: j.done + 1, Value: bad.Value, From: bad.Node, Epoch: b.Epoch, Batch: b.Index}
	if value, node, e := x.firstBad(ctx, j.number(micro), b.Tensors); e == nil && value != "" {
		stop.Value, stop.From = value, node
	}
	return stop
}

// sumsNotFinite is the error for sums of gradients that are not finite although all losses are.
func (j *job) sumsNotFinite(value string) error {
	return &NotFiniteError{Update: j.done + 1, Value: value, Epoch: j.epoch, Batch: j.index - 1}
}

// rescale tells the loss scale whether the gradients were finite. Those that are not at the least
// scale have not overflowed because of it, and count as numbers of a graph without a scale.
func (j *job) rescale(finite bool) error {
	if j.Scale == nil {
		return nil
	}
	least := j.Scale.Value == 1
	j.Scale.Update(finite)
	if finite || !least || j.OnNaN == SkipOnNaN {
		return nil
	}
	return &NotFiniteError{Update: j.done + 1, Value: autograd.NormOutput, Epoch: j.epoch, Batch: j.index - 1}
}

// NotFiniteError is the error of a loss or a gradient that became infinite or not a number.
type NotFiniteError struct {
	Update int64  // counted from 1
	Value  string // the first value that is not finite
	// From is the label of the node that made it, or the description by [resident.Step]'s FirstBad
	// of a value without a producer. "" if it is not known.
	From         string
	Epoch, Batch int64 // the batch, or the last one of the update, both from 0
}

// Error tells where numbers were not finite, and suggests remedies.
func (e *NotFiniteError) Error() string {
	text := fmt.Sprintf("update %d (batch %d of epoch %d): %q is not finite", e.Update, e.Batch, e.Epoch, e.Value)
	switch {
	case slices.Contains([]string{resident.OfInput, resident.OfState, resident.OfModel}, e.From):
		text += " " + e.From
	case e.From != "":
		text += ", the first value that should be; node " + e.From + " makes it"
	}
	return text + ". The update was not made; lower the learning rate, bound the gradients' norm, or " +
		e.Unwrap().Error()
}

// Unwrap returns the remedy that an option has, as an error with advice.
func (e *NotFiniteError) Unwrap() error {
	return fmt.Errorf("leave such batches out with %v", hint.OnNaN.With("skip"))
}
