package cuda

import (
	"memopt/executor/cuda/driver"
)

// launch is a kernel of a node: its function, and room for its arguments.
type launch struct {
	d    *Device
	name string // of the kernel
	fn   driver.Function
	args driver.Args
}

// launch returns a kernel of a module to launch: both names are as in kernels/MODULE.cu.
func (d *Device) launch(module, name string) (*launch, error) {
	fn, err := d.function(module, name)
	if err != nil {
		return nil, err
	}
	return &launch{d: d, name: name, fn: fn}, nil
}

// begin returns empty arguments, to be filled in the order of the kernel's struct.
func (l *launch) begin() *driver.Args { return l.args.Reset() }

// line runs the kernel on blocks in a row that share n pieces of work, so many per thread: it steps
// through them by global_threads.
func (l *launch) line(n, perThread int) error {
	if n == 0 {
		return nil
	}
	const threads = 256
	blocks := (n + threads*perThread - 1) / (threads * perThread)
	// More blocks than fit on the device at once would only add launch cost.
	return l.run(driver.Line(min(blocks, 32*l.d.driver.Info().Processors), threads))
}

// rows runs the kernel with one block of so many threads per row; a kernel with more rows than
// blocks steps by grid_x.
func (l *launch) rows(n, threads, sharedBytes int) error {
	if n == 0 {
		return nil
	}
	s := driver.Line(min(n, 1<<20), threads)
	s.Shared = uint32(sharedBytes)
	return l.run(s)
}

// run runs the kernel.
func (l *launch) run(s driver.Shape) error { return l.d.driver.Launch(l.fn, s, l.d.stream, &l.args) }
