package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
)

// deformConv is DeformConv: columns whose elements are moved, some places of an image at a time,
// and products with the filters of each group.
type deformConv struct {
	*convolver
	sample       *launch
	offsetGroups int
	plan         convPlan
	shape        []int
}

// newDeformConv makes the kernel of DeformConv.
func newDeformConv(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if !p.Has(1) || !p.Has(2) {
		return nil, noTypes(p)
	}
	g, err := cpu.NewConvGeometry(p)
	if err != nil {
		return nil, err
	}
	k, err := newConvolver(d, p, g)
	if err != nil {
		return nil, err
	}
	l, err := d.launch("deform", "deform_columns")
	return &deformConv{convolver: k, sample: l, offsetGroups: int(p.Node.Int("offset_group", 1))}, err
}

// piece returns how many places have their columns made at once.
func (k *deformConv) piece(p *convPlan) int {
	row := max(p.c*p.taps*k.size, 1)
	return max(min(p.outPlane, convColumnBytes/row), 1)
}

// Workspace returns what the columns and the library take.
func (k *deformConv) Workspace(in, _ [][]int) int {
	p, err := newConvPlan(k.geometry, in[0], in[1], k.size)
	if err != nil {
		return 0
	}
	return executor.RoundUp(k.piece(&p)*p.c*p.taps*k.size) + executor.RoundUp(k.d.libraryWorkspace())
}

// Run checks the shapes and computes.
func (k *deformConv) Run(c *executor.Ctx) error {
	if err := k.operands(c); err != nil {
		return err
	}
	p := &k.plan
	k.shape = append(k.shape[:0], p.n, p.m, p.Out[1], p.Out[2])
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.lend(c)
	columns := c.Scratch(k.piece(p) * p.c * p.taps * k.size)
	for image := range p.n {
		if err := k.image(c, image, columns, y.Data); err != nil {
			return err
		}
	}
	if bias := c.In(3); bias != nil {
		return k.addBias(y.Data, bias.Data, p.n, p.m, p.outPlane)
	}
	return nil
}

// operands checks the inputs.
func (k *deformConv) operands(c *executor.Ctx) (err error) {
	x, w := c.In(0), c.In(1)
	if x.Rank() != 4 {
		return c.Errorf("input 0 has rank %d, wanted 4", x.Rank())
	}
	if k.plan, err = newConvPlan(k.geometry, x.Shape, w.Shape, k.size); err != nil {
		return err
	}
	p := &k.plan
	if p.c%k.offsetGroups != 0 {
		return c.Errorf("the data has %d channels, which offset_group %d does not divide", p.c, k.offsetGroups)
	}
	if bias := c.In(3); bias != nil && (bias.Rank() != 1 || bias.Shape[0] != p.m) {
		return c.Errorf("input 3 (bias) has shape %v, wanted [%d]", bias.Shape, p.m)
	}
	if err := k.planes(c, 2, 2); err != nil {
		return err
	}
	return k.planes(c, 4, 1)
}

// planes checks an input with so many planes for every tap of every offset group; it may be left
// out.
func (k *deformConv) planes(c *executor.Ctx, slot, per int) error {
	t, p := c.In(slot), &k.plan
	if t == nil {
		return nil
	}
	want := [4]int{p.n, per * k.offsetGroups * p.taps, p.Out[1], p.Out[2]}
	if t.Rank() != 4 || [4]int(t.Shape) != want {
		return c.Errorf("input %d has shape %v, wanted [%d %d %d %d]", slot, t.Shape, want[0], want[1],
			want[2], want[3])
	}
	return nil
}

// image computes one image, piece by piece.
func (k *deformConv) image(c *executor.Ctx, image int, columns, y []byte) error {
	p, g := &k.plan, &k.gemm
	if p.depth == 0 {
		return k.d.Memory().Fill(y[image*p.m*p.outPlane*k.size:][:p.m*p.outPlane*k.size], 0)
	}
	piece := k.piece(p)
	for first := 0; first < p.outPlane; first += piece {
		count := min(piece, p.outPlane-first)
		if err := k.columnsOf(c, image, first, count, columns); err != nil {
			return err
		}
		g.M, g.N, g.K, g.LDA, g.LDB, g.LDC = p.mg, count, p.depth, p.depth, count, p.outPlane
		g.Batch, g.StrideA, g.StrideB, g.StrideC = p.group, p.mg*p.depth, p.depth*count, p.mg*p.outPlane
		if err := k.call(c.In(1).Data, 0, columns, 0, y, image*p.m*p.outPlane+first); err != nil {
			return err
		}
	}
	return nil
}

// columnsOf makes the columns of count places of an image.
func (k *deformConv) columnsOf(c *executor.Ctx, image, first, count int, columns []byte) error {
	p := &k.plan
	lines := k.offsetGroups * p.taps
	of := func(t *executor.Tensor, perImage int) []byte {
		if t == nil {
			return nil
		}
		return t.Data[image*perImage*k.size:][:perImage*k.size]
	}
	a := k.sample.begin()
	a.In(of(c.In(0), p.c*p.inPlane))
	a.In(of(c.In(2), 2*lines*p.outPlane))
	a.In(of(c.In(4), lines*p.outPlane))
	a.Out(columns)
	a.Int(lines * count)
	a.Int(first)
	a.Int(count)
	a.Int(p.outPlane)
	a.Int32(int32(p.c / k.offsetGroups))
	a.Uint32(typeOf(c.In(0)))
	a.Divider(count)
	a.Divider(p.taps)
	p.pack(a)
	return k.sample.line(lines*count, 1)
}
