// Package null is a device without computation: its kernels take the memory of a run and count it.
// For example, plans for a GPU can be checked on a small machine.
package null

import "memopt/executor"

// Device takes memory without computing.
type Device struct{}

// Name returns the device's name.
func (Device) Name() string { return "null" }

// Virtual says that the memory is counted and not taken.
func (Device) Virtual() bool { return true }

// Kernel returns a kernel that takes memory for outputs of the shapes that inference knows. For
// control flow it does not count the memory of subgraphs.
func (Device) Kernel(p *executor.Prep) (executor.Kernel, error) {
	for i, s := range p.Shapes {
		if s == nil && p.Wants(i) {
			return nil, p.Unsupported("the shape of output %d depends on data, which this device lacks", i)
		}
	}
	return &kernel{p}, nil
}

type kernel struct{ p *executor.Prep }

// Run takes the outputs' memory.
func (k *kernel) Run(c *executor.Ctx) error {
	for i, s := range k.p.Shapes {
		if !c.Wants(i) {
			continue
		}
		if i == 0 && k.p.Info.View && c.In(0) != nil {
			c.View(0, c.In(0), s...)
			continue
		}
		c.Out(i, s...)
	}
	return nil
}
