// Package cuda is the device for NVIDIA GPUs: one row per operator names its kernel, or the reason why the
// host runs it. README.md explains how to add a kernel.
//
// # The CUDA device
//
// A kernel takes one struct, packed by driver.Args member by member; a launch does not allocate. Kernels are
// compiled by clang without a toolkit and embedded as PTX; the driver compiles a module for the GPU when its
// first kernel is made. Products go to cuBLAS and convolutions to cuDNN, which are lent workspace from the
// arena (Session.LibraryNodes tells how much, and the nodes that own kernels compute in cuDNN's place), or to
// own kernels if these are missing. One stream does all work in order, except for fetched outputs, which a
// second one copies between two events. The algorithm of a convolution is chosen once for each case, when a
// session is opened (conv_choice.go), the kernel of a product by shapes and type (product_plan.go). Operators
// whose rows have no kernel, and nodes of types that a kernel does not take, for example strings, run on the
// host (Session.HostNodes has the reasons). The double (internal/test/double) runs the same sources on the
// host, each launch on copies of its operands with poison around them; it alternates the order of work that
// events leave open.
package cuda

import (
	"errors"
	"fmt"
	"sync"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
	"memopt/executor/cuda/kernels"
	"memopt/executor/small"
	"memopt/graph"
)

// Options of Open and New.
type Options struct {
	// TF32 lets products of float32 matrices, and cuDNN's convolutions, round their operands to 10
	// bits.
	TF32 bool
	// ConvSearch is how cuDNN's algorithm for a convolution is found: cudnn_conv_algo_search.
	ConvSearch driver.ConvSearch
	// ConvClamp excludes algorithms that need more than 32 MiB of workspace:
	// cudnn_conv_use_max_workspace=0.
	ConvClamp bool
}

// Device is one GPU with a stream that does all work in order, except for copies of outputs
// (fetches). It serves one session at a time, or several that take turns.
type Device struct {
	driver   driver.Driver // which is products
	products *products
	stream   driver.Stream
	fetches  fetches
	copies   copyQueues
	opts     Options

	mu        sync.Mutex
	modules   map[string]driver.Module
	functions map[string]driver.Function
	convs     map[convKey]convChoice
}

// Open opens GPU number ordinal. The error wraps a *driver.Missing if there is no driver or GPU.
func Open(ordinal int, o Options) (*Device, error) {
	drv, err := driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	d, err := New(drv, o)
	if err != nil {
		drv.Close()
	}
	return d, err
}

// New makes a device of an open driver.
func New(drv driver.Driver, o Options) (*Device, error) {
	s, err := drv.NewStream()
	if err != nil {
		return nil, err
	}
	f, err := newFetches(drv)
	if err != nil {
		return nil, err
	}
	d := &Device{
		stream: s, fetches: f, opts: o, modules: map[string]driver.Module{}, functions: map[string]driver.Function{},
		convs: map[convKey]convChoice{},
	}
	d.products = &products{Driver: drv, function: d.function, own: map[productKernel]driver.Function{}}
	d.driver = d.products
	return d, nil
}

// Close closes the driver. Sessions are closed before.
func (d *Device) Close() error { return d.driver.Close() }

// AllowTF32 says whether products of kernels made later may round float32 operands to 10 bits.
func (d *Device) AllowTF32(allow bool) { d.opts.TF32 = allow }

// ChooseConvolutions says how cuDNN's algorithms are found for sessions that are opened from now
// on, and whether those with a workspace of more than 32 MiB are left out.
func (d *Device) ChooseConvolutions(search driver.ConvSearch, clamp bool) {
	d.opts.ConvSearch, d.opts.ConvClamp = search, clamp
}

// Name returns the device's name.
func (d *Device) Name() string { return "cuda" }

// Driver returns the driver that the device was made of.
func (d *Device) Driver() driver.Driver { return d.products.Driver }

// Host returns the device for nodes without a kernel on this one.
func (d *Device) Host() executor.Device { return cpu.Device{} }

// Kernel returns the device's kernel for a node.
func (d *Device) Kernel(p *executor.Prep) (executor.Kernel, error) {
	row := Of(p.Node.Kind)
	if row.New == nil {
		return nil, p.Unsupported("there is no CUDA kernel: %s", row.Why)
	}
	return d.newKernel(row, p)
}

// newKernel makes a kernel of a row that has one.
func (d *Device) newKernel(row *Row, p *executor.Prep) (executor.Kernel, error) {
	for _, list := range [][]graph.DType{p.In, p.Out} {
		for _, t := range list {
			if !p.Info.View && (small.IsPacked(t) || small.IsFloat(t)) {
				return nil, p.Unsupported("%s (%v)", ofBits, t)
			}
		}
	}
	return row.New(d, p)
}

// Assign returns the device's kernel for a node, or else the host's.
func (d *Device) Assign(p *executor.Prep) (executor.Assigned, error) {
	row := Of(p.Node.Kind)
	why := row.Why
	host, err := d.Host().Kernel(p) // which looks at attributes and types
	if err != nil {
		return executor.Assigned{}, err
	}
	if row.New != nil {
		k, err := d.newKernel(row, p)
		if err == nil {
			return executor.Assigned{Kernel: k, HostInputs: row.HostInputs}, nil
		}
		unsupported := (*executor.Unsupported)(nil)
		if !errors.As(err, &unsupported) {
			return executor.Assigned{}, err
		}
		why = errors.Unwrap(unsupported.Err).Error() // without the node's name
	}
	return executor.Assigned{Kernel: host, Host: why}, nil
}

// function returns a kernel of a module, which is compiled for the GPU when it is first asked for.
func (d *Device) function(module, name string) (driver.Function, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := module + "." + name
	if f, ok := d.functions[key]; ok {
		return f, nil
	}
	m, ok := d.modules[module]
	if !ok {
		image, err := kernels.PTX(module)
		if err != nil {
			return 0, err
		}
		if m, err = d.driver.Load(module, image); err != nil {
			return 0, err
		}
		d.modules[module] = m
	}
	f, err := d.driver.Function(m, name)
	if err != nil {
		return 0, fmt.Errorf("module %s: %w", module, err)
	}
	d.functions[key] = f
	return f, nil
}

// hostView makes the kernels of operators that only reinterpret memory without touching it: the
// host's work on any device.
func hostView(d *Device, p *executor.Prep) (executor.Kernel, error) { return d.Host().Kernel(p) }

var _ executor.Accelerator = (*Device)(nil)
