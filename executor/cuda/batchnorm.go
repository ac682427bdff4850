package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// channelLayout is the layout of channels in x [N, C, D].
type channelLayout struct {
	n, c, d int
	chunks  int // per channel
	wide    uint32
}

// channelChunk is the number of elements of a channel that one block, of 256 threads, sums up.
const channelChunk = 256 * rowHeld

// set sets the layout of a shape; one channel per element of a sample if perPlace.
func (l *channelLayout) set(t *executor.Tensor, perPlace bool) {
	l.measure(t.Shape, perPlace)
	l.wide = wide(t.DType, l.d)
}

func (l *channelLayout) measure(shape []int, perPlace bool) {
	l.n, l.c, l.d = 1, 1, 1
	if len(shape) > 0 {
		l.n = shape[0]
	}
	if len(shape) > 1 {
		l.c, l.d = shape[1], elements(shape[2:])
	}
	if perPlace {
		l.c, l.d = l.c*l.d, 1
	}
	l.chunks = max((l.n*l.d+channelChunk-1)/channelChunk, 1)
}

// pack packs channels of kernels/batchnorm.h.
func (l *channelLayout) pack(a *driver.Args) {
	a.Int(l.n).Int(l.c).Int(l.d).Int(l.chunks).Int(channelChunk)
	for _, n := range []int{l.d, l.c} {
		if n < 1 || n >= 1<<31 {
			n = 1
		}
		a.Divider(n)
	}
	a.Uint32(l.wide)
	a.Uint32(0) // the struct's end is padded: it has 64-bit members
}

// space is the workspace for sums of chunks and for so many factors of each channel.
func (l *channelLayout) space(factors int) int {
	return executor.RoundUp(8*l.c*l.chunks) + executor.RoundUp(4*factors*l.c)
}

// elementsPer is how many elements a thread of the last step computes at once.
func (l *channelLayout) elementsPer(t *executor.Tensor) int {
	if l.wide != 0 {
		return packWidth(t.DType)
	}
	return 1
}

// batchNormKernel is BatchNormalization, or ONNX Runtime's training form of it.
type batchNormKernel struct {
	channelLayout
	stats, channels, apply              *launch
	epsilon, momentum                   float32
	training, perPlace, saveInv         bool
	newMean, newVar, saveMean, saveVari *executor.Tensor
}

// newBatchNorm makes BatchNormalization.
func newBatchNorm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	training := p.Node.Int("training_mode", 0) != 0
	if p.Version < 14 {
		training = p.Wants(1) || p.Wants(2) || p.Wants(3) || p.Wants(4)
	}
	return batchNorm(d, p, training, false)
}

// newBatchNormInternal makes ONNX Runtime's training form.
func newBatchNormInternal(d *Device, p *executor.Prep) (executor.Kernel, error) {
	return batchNorm(d, p, p.Node.Int("training_mode", 1) != 0, true)
}

func batchNorm(d *Device, p *executor.Prep, training, saveInv bool) (executor.Kernel, error) {
	if err := normOperands(p, 1, 1); err != nil {
		return nil, err
	}
	k := &batchNormKernel{epsilon: p.Node.Float("epsilon", 1e-5), momentum: p.Node.Float("momentum", 0.9),
		training: training,
		saveInv:  saveInv, perPlace: p.Version < 9 && p.Node.Int("spatial", 1) == 0 && p.Info.Domain == ""}
	err := d.launches("batchnorm_"+suffix(p.DType(0)),
		[]named{{&k.stats, "batchstats"}, {&k.channels, "batchchannels"}, {&k.apply, "batchapply"}})
	return k, err
}

// named is a kernel of a module, without the element type.
type named struct {
	to   **launch
	name string
}

// launches gets several kernels of a module NAME_TYPE.
func (d *Device) launches(module string, list []named) error {
	at := len(module) - 1
	for module[at] != '_' {
		at--
	}
	for _, l := range list {
		var err error
		if *l.to, err = d.launch(module, l.name+module[at:]); err != nil {
			return err
		}
	}
	return nil
}

// Workspace counts sums and factors.
func (k *batchNormKernel) Workspace(in, _ [][]int) int {
	if len(in) == 0 || in[0] == nil {
		return 0
	}
	var l channelLayout
	l.measure(in[0], k.perPlace)
	return l.space(3)
}

// Run normalises.
func (k *batchNormKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 1 {
		return c.Errorf("input 0 is %v, wanted rank 1 or more", x)
	}
	k.set(x, k.perPlace)
	for i := 1; i < 5; i++ {
		if t := c.In(i); t.Len() != k.c || t.Rank() != 1 && !k.perPlace {
			return c.Errorf("input %d is %v, wanted one element for each of %d channels", i, t, k.c)
		}
	}
	if k.training && k.n*k.d == 0 && k.c > 0 {
		return c.Errorf("input 0 is %v: the mean of no elements is undefined", x)
	}
	y := c.Out(0, x.Shape...)
	stats := c.In(1).Shape
	k.newMean, k.newVar = c.Out(1, stats...), c.Out(2, stats...)
	k.saveMean, k.saveVari = c.Out(3, stats...), c.Out(4, stats...)
	if k.c == 0 {
		return nil
	}
	part, factors := c.Scratch(8*k.c*k.chunks), c.Scratch(4*3*k.c)
	if k.training {
		a := k.stats.begin()
		k.packSums(a, x, nil, nil, part)
		if err := k.stats.rows(k.c*k.chunks, 256, 0); err != nil {
			return err
		}
	}
	if err := k.runChannels(c, part, factors); err != nil || y == nil || y.Len() == 0 {
		return err
	}
	k.packApply(k.apply.begin(), x, nil, factors, y)
	return k.apply.line(y.Len(), k.elementsPer(x))
}

// packSums packs batchpart_args.
func (l *channelLayout) packSums(a *driver.Args, x, dy, mean *executor.Tensor, part []byte) {
	a.In(x.Data).In(dataOf(dy)).In(dataOf(mean)).Out(part)
	l.pack(a)
	a.Uint32(typeOf(mean))
}

// packApply packs batchapply_args.
func (l *channelLayout) packApply(a *driver.Args, x, dy *executor.Tensor, factors []byte, y *executor.Tensor) {
	a.In(x.Data).In(dataOf(dy)).In(factors).Out(y.Data)
	l.pack(a)
}

// runChannels makes the statistics and factors of each channel.
func (k *batchNormKernel) runChannels(c *executor.Ctx, part, factors []byte) error {
	a := k.channels.begin()
	a.Out(part) // which has not been written to without training
	for i := 1; i < 5; i++ {
		a.In(c.In(i).Data)
	}
	a.Out(factors)
	outs := [...]*executor.Tensor{k.newMean, k.newVar, k.saveMean, k.saveVari}
	for _, t := range outs {
		a.Out(dataOf(t))
	}
	k.pack(a)
	a.Float32(k.epsilon).Float32(k.momentum).Uint32(flag(k.training)).Uint32(flag(k.saveInv))
	for i := 1; i < 5; i++ {
		a.Uint32(typeOf(c.In(i)))
	}
	for _, t := range outs {
		a.Uint32(typeOf(t))
	}
	return k.channels.folding(k.c, 1)
}
