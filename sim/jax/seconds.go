package jax

// Kernel is the work of an equation, with those that it computes within itself.
type Kernel struct {
	Product bool // a product of matrices or a convolution
	Type    string
	FLOPs   float64
	Moved   float64 // bytes of its operands and results
}

// Seconds adds up the time of a step by the time of its kernels.
func (p *Program) Seconds(b *Body, of func(Kernel) float64) float64 { return p.seconds(b, -1, of) }

func (p *Program) seconds(b *Body, stacks int, of func(Kernel) float64) (total float64) {
	f := fuse(b, stacks, p.Free)
	for i := range b.Steps {
		s := &b.Steps[i]
		if f.alias(s) || len(s.Out) == 1 && f.virtual[s.Out[0]] {
			continue
		}
		switch {
		case s.Primitive == "scan":
			total += float64(s.Length) * p.seconds(s.Bodies[0], s.Carry, of)
		case len(s.Bodies) > 0:
			for _, x := range s.Bodies {
				total += p.seconds(x, -1, of)
			}
		case s.Primitive != opReload:
			k := Kernel{Product: s.Type != "", Type: s.Type, FLOPs: float64(s.FLOPs)}
			for _, list := range [2][]int32{s.In, s.Out} {
				for _, v := range list {
					if v >= 0 && !f.virtual[f.root[v]] {
						k.Moved += float64(b.Bytes[v])
					}
				}
			}
			total += of(k)
		}
	}
	return total
}
