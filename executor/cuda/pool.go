package cuda

import (
	"math"
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/operand"
	"memopt/graph"
)

// poolKernel is MaxPool, AveragePool and LpPool: one thread per place of the window.
type poolKernel struct {
	*launch
	geometry        *cpu.PoolGeometry
	columnMajor, p  int32
	countPad, takes int32 // takes: outputs
}

// pool makes kernels of pool.h that slide a window.
func pool(name string, outputs int32) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t := p.DType(0)
		if !isFloat(t) {
			return nil, noTypes(p)
		}
		g, err := cpu.NewPoolGeometry(p)
		if err != nil {
			return nil, err
		}
		order, err := wholeOrder(p)
		if err != nil {
			return nil, err
		}
		l, err := d.launch("pool_"+suffix(t), name+"_"+suffix(t))
		return &poolKernel{launch: l, geometry: g, p: order, takes: outputs,
			columnMajor: int32(p.Node.Int("storage_order", 0)),
			countPad:    int32(p.Node.Int("count_include_pad", 0))}, err
	}
}

// Run checks the shape and computes.
func (k *poolKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	slid, shape, err := k.geometry.Shape(x)
	if err != nil {
		return err
	}
	w, err := newWindow(slid)
	if err != nil {
		return err
	}
	var to [2][]byte
	n := 0
	for i := range k.takes {
		if y := c.Out(int(i), shape...); y != nil {
			to[i], n = y.Data, y.Len()
		}
	}
	if n == 0 {
		return nil
	}
	a := k.begin().In(x.Data).Out(to[0]).Out(to[1]).Int(n).Divider(w.outPlane).Int32(k.columnMajor).
		Int32(k.countPad).Int32(k.p)
	for _, f := range w.Finish {
		a.Int32(int32(f))
	}
	w.pack(a)
	return k.line(n, 1)
}

// globalPool reduces planes to one element, a block each.
type globalPool struct {
	*launch
	p     int32
	shape []int
}

// global makes kernels of pool.h that reduce planes.
func global(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t := p.DType(0)
		if !isFloat(t) {
			return nil, noTypes(p)
		}
		order, err := wholeOrder(p)
		if err != nil {
			return nil, err
		}
		l, err := d.launch("pool_"+suffix(t), name+"_"+suffix(t))
		return &globalPool{launch: l, p: order}, err
	}
}

// wholeOrder reads the order of a norm; the kernels support whole numbers. For other pools it is 2.
func wholeOrder(p *executor.Prep) (int32, error) {
	order, err := operand.LpOrder(p)
	if err == nil && order != math.Trunc(order) {
		err = p.Unsupported("no CUDA kernel takes p = %g, which is not a whole number", order)
	}
	return int32(order), err
}

// Run checks the shape and computes.
func (k *globalPool) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 has rank %d, wanted batch, channel and spatial axes", x.Rank())
	}
	k.shape = append(k.shape[:0], x.Shape[:2]...)
	plane := 1
	for _, d := range x.Shape[2:] {
		k.shape, plane = append(k.shape, 1), plane*d
	}
	if plane == 0 && x.Shape[0]*x.Shape[1] > 0 {
		return c.Errorf("input 0 has shape %v: its planes are empty", x.Shape)
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.begin().In(x.Data).Out(y.Data).Int(y.Len()).Int(plane).Int32(k.p)
	// About four elements per thread; sums are added in an order that follows from the plane's
	// size.
	threads := min(max((plane/4+31)&^31, 32), 512)
	return k.rows(y.Len(), threads, 0)
}

// maxPoolGrad is ONNX Runtime's MaxPoolGrad, for a shape of dX that is known before the run. An
// index outside its window is ignored.
type maxPoolGrad struct {
	*launch
	geometry    *cpu.PoolGeometry
	columnMajor int32
	x           executor.Tensor // of X only its shape is known
}

// newMaxPoolGrad makes the kernel of MaxPoolGrad.
func newMaxPoolGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	if !isFloat(t) || p.DType(1) != graph.Int64 {
		return nil, noTypes(p)
	}
	if len(p.Shapes) == 0 || p.Shapes[0] == nil {
		return nil, p.Unsupported("no CUDA kernel finds the size of dX from indices")
	}
	g, err := cpu.NewPoolGeometry(p)
	if err != nil {
		return nil, err
	}
	l, err := d.launch("pool_"+suffix(t), "maxpoolgrad_"+suffix(t))
	return &maxPoolGrad{
		launch: l, geometry: g, columnMajor: int32(p.Node.Int("storage_order", 0)),
		x: executor.Tensor{Shape: p.Shapes[0]},
	}, err
}

// Run checks the shapes and computes.
func (k *maxPoolGrad) Run(c *executor.Ctx) error {
	dy, index := c.In(0), c.In(1)
	if !slices.Equal(dy.Shape, index.Shape) {
		return c.Errorf("input 1 has shape %v, wanted that of input 0, %v", index.Shape, dy.Shape)
	}
	slid, shape, err := k.geometry.Shape(&k.x)
	if err != nil {
		return err
	}
	if !slices.Equal(shape, dy.Shape) {
		return c.Errorf("input 0 has shape %v, which no MaxPool of an input %v gives", dy.Shape, k.x.Shape)
	}
	w, err := newWindow(slid)
	if err != nil {
		return err
	}
	dx := c.Out(0, k.x.Shape...)
	if dx == nil || dx.Len() == 0 {
		return nil
	}
	a := k.begin().In(dy.Data).In(index.Data).Out(dx.Data).Int(dx.Len()).Divider(w.inPlane).
		Int32(k.columnMajor)
	w.pack(a)
	return k.line(dx.Len(), 1)
}
