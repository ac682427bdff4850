package cpu

// The cells. Names are those of the operator documents; . is the product by elements.

type rnnCell[T chunkFloat] rnnKernel[T]

// Range computes H = f(pre).
func (c *rnnCell[T]) Range(lo, hi int) {
	k := (*rnnKernel[T])(c)
	for i := lo; i < hi; i++ {
		b, from, to, ok := k.cell(i)
		if !ok {
			k.store(b, from, to, nil)
			continue
		}
		x := k.gate(b, 0, from, to)
		k.activate(0, x)
		copy(k.h[b*k.hidden+from:], x)
		k.store(b, from, to, x)
	}
}

type lstmCell[T chunkFloat] rnnKernel[T]

// Range computes i, f, c~, C = f.C + i.c~, o and H = o.h(C); the gates lie in the order i, o, f, c.
func (c *lstmCell[T]) Range(lo, hi int) {
	k := (*rnnKernel[T])(c)
	for item := lo; item < hi; item++ {
		b, from, to, ok := k.cell(item)
		if !ok {
			k.store(b, from, to, nil)
			continue
		}
		i, o, f, g := k.gate(b, 0, from, to), k.gate(b, 1, from, to), k.gate(b, 2, from, to), k.gate(b, 3, from, to)
		state := k.c[b*k.hidden+from : b*k.hidden+to]
		h := k.h[b*k.hidden+from : b*k.hidden+to]
		k.peep(i, 0, state, from)
		k.activate(0, i)
		if k.couple {
			for n, v := range i {
				f[n] = 1 - v
			}
		} else {
			k.peep(f, 2, state, from)
			k.activate(0, f)
		}
		k.activate(1, g)
		for n := range state {
			kept, added := f[n]*state[n], i[n]*g[n]
			state[n] = kept + added
		}
		k.peep(o, 1, state, from)
		k.activate(0, o)
		copy(g, state)
		k.activate(2, g)
		for n, v := range o {
			h[n] = v * g[n]
		}
		k.store(b, from, to, h)
	}
}

// peep adds P.C to a gate's input. P has the order i, o, f.
func (k *rnnKernel[T]) peep(x []T, gate int, state []T, from int) {
	if k.pp == nil {
		return
	}
	p := k.pp[gate*k.hidden+from:][:len(x)]
	for n, v := range state {
		w := p[n] * v
		x[n] += w
	}
}

type gruReset[T chunkFloat] rnnKernel[T]

// Range computes z, r and r.H, which the next product takes.
func (c *gruReset[T]) Range(lo, hi int) {
	k := (*rnnKernel[T])(c)
	for i := lo; i < hi; i++ {
		b, from, to, ok := k.cell(i)
		side := k.side[b*k.hidden+from : b*k.hidden+to]
		if !ok {
			clear(side)
			continue
		}
		r := k.gate(b, 1, from, to)
		k.activate(0, k.gate(b, 0, from, to))
		k.activate(0, r)
		h := k.h[b*k.hidden+from:][:len(r)]
		for n, v := range r {
			side[n] = v * h[n]
		}
	}
}

type gruCell[T chunkFloat] rnnKernel[T]

// Range computes h~ = g(pre), with linear_before_reset of z and r too, and H = (1-z).h~ + z.H.
func (c *gruCell[T]) Range(lo, hi int) {
	k := (*rnnKernel[T])(c)
	for i := lo; i < hi; i++ {
		b, from, to, ok := k.cell(i)
		if !ok {
			k.store(b, from, to, nil)
			continue
		}
		z, x := k.gate(b, 0, from, to), k.gate(b, 2, from, to)
		if k.linear {
			k.activate(0, z)
			k.reset(b, from, to, x)
		}
		k.activate(1, x)
		h := k.h[b*k.hidden+from : b*k.hidden+to]
		for n, v := range z {
			fresh, kept := (1-v)*x[n], v*h[n]
			h[n] = fresh + kept
		}
		k.store(b, from, to, h)
	}
}

// reset adds r.(H*R^T + bias) to the hidden gate's input.
func (k *rnnKernel[T]) reset(b, from, to int, x []T) {
	r := k.gate(b, 1, from, to)
	k.activate(0, r)
	side := k.side[b*k.hidden+from : b*k.hidden+to]
	if k.resets != nil {
		for n, v := range k.resets[from:to] {
			side[n] += v
		}
	}
	for n, v := range r {
		p := v * side[n]
		x[n] += p
	}
}
