package onnxgo

import (
	"context"
	"errors"
	"fmt"

	"memopt"
	"memopt/executor/cpu"
	"memopt/executor/verify"
)

// Run computes the outputs of the model on memopt's CPU device, from the tensors of its inputs, whose
// shapes replace those of Options. It takes Bind before it.
func (b *Backend) Run() error {
	if !b.bound {
		return errors.New("the inputs and outputs of the model are unknown: call Bind with the decoded " +
			"onnx.Model first")
	}
	shapes := b.options.Shapes
	b.options.Shapes = nil
	m, err := b.model()
	b.options.Shapes = shapes
	if err != nil {
		return err
	}
	x := m.Execution()
	for _, n := range b.inputs {
		if x.Inputs[n.name], err = take(n.value); err != nil {
			return fmt.Errorf("input %q: %w", n.name, err)
		}
	}
	return b.execute(x)
}

func (b *Backend) execute(x *memopt.Execution) error {
	run, err := x.Run(context.Background(), verify.Options{Engine: verify.On(cpu.Device{})})
	if err != nil {
		return err
	}
	for i, o := range run.Outputs {
		if b.outputs[i].value, err = give(o.Tensor); err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
	}
	return nil
}
