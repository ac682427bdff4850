package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph/op"
)

// rnnCellLen is how many elements of a row a cell computes at a time.
const rnnCellLen = 256

// direction runs the whole sequence in one direction.
func (k *rnnKernel[T]) direction(c *executor.Ctx) {
	k.biases()
	rows, hidden := k.gates*k.hidden, k.hidden
	w := k.w[k.index*rows*k.input:][:rows*k.input]
	k.project = blas.Gemm[T]{TransB: true, M: k.seq * k.batch, N: rows, K: k.input,
		Alpha: 1, A: k.x, LDA: k.input, B: w, LDB: k.input, C: k.pre, LDC: rows}
	if k.bias != nil {
		k.project.Beta = 1
		c.Parallel(k.seq*k.batch, max(1, (1<<14)/max(rows, 1)), (*rnnBias[T])(k))
	}
	tiles, grain := k.project.Plan()
	c.Parallel(tiles, grain, &k.project)

	k.start(k.h, k.h0)
	if k.kind == op.LSTM {
		k.start(k.c, k.c0)
	}
	if k.pp = nil; k.peepholes != nil {
		k.pp = k.peepholes[k.index*3*hidden:][:3*hidden]
	}
	k.base, k.ld = 0, rows
	if k.batchFirst {
		k.ld = k.seq * rows
	}
	k.products()
	k.chunks = (hidden + rnnCellLen - 1) / rnnCellLen
	for s := range k.seq {
		if k.time = s; k.now.reverse {
			k.time = k.seq - 1 - s
		}
		k.step(c)
	}
	k.finish(k.yh, k.h)
	k.finish(k.yc, k.c)
}

// products sets up the products of a step; step gives them their places.
func (k *rnnKernel[T]) products() {
	rows, hidden := k.gates*k.hidden, k.hidden
	r := k.r[k.index*rows*hidden:][:rows*hidden]
	k.recur = blas.Gemm[T]{TransB: true, M: k.batch, N: rows, K: hidden,
		Alpha: 1, A: k.h, LDA: hidden, B: r, LDB: hidden, Beta: 1, LDC: k.ld}
	if k.kind == op.GRU {
		// The hidden gate's product is one of its own.
		k.recur.N = 2 * hidden
		k.again = k.recur
		k.again.N, k.again.B = hidden, r[2*hidden*hidden:]
		if k.linear {
			k.again.Beta, k.again.C, k.again.LDC = 0, k.side, hidden
		} else {
			k.again.A = k.side
		}
	}
}

// biases adds up the biases that go to pre.
func (k *rnnKernel[T]) biases() {
	k.resets = nil
	if k.bias == nil {
		return
	}
	rows := k.gates * k.hidden
	b := k.bias[k.index*2*rows:][:2*rows]
	w, r := b[:rows], b[rows:]
	apart := rows // rows from here on get R's bias elsewhere
	if k.kind == op.GRU && k.linear {
		apart = 2 * k.hidden
		k.resets = r[apart:]
	}
	for i := range k.sums {
		k.sums[i] = w[i]
		if i < apart {
			k.sums[i] += r[i]
		}
	}
}

type rnnBias[T chunkFloat] rnnKernel[T]

// Range sets rows of pre to the biases.
func (k *rnnBias[T]) Range(lo, hi int) {
	n := len(k.sums)
	for i := lo; i < hi; i++ {
		copy(k.pre[i*n:(i+1)*n], k.sums)
	}
}

// start sets a state [batch, hidden] to its initial value.
func (k *rnnKernel[T]) start(state, initial []T) {
	if initial == nil {
		clear(state)
		return
	}
	for b := range k.batch {
		copy(state[b*k.hidden:][:k.hidden], initial[k.statePlace(b):])
	}
}

// finish stores a state in an output of shape [directions, batch, hidden].
func (k *rnnKernel[T]) finish(out, state []T) {
	if out == nil {
		return
	}
	for b := range k.batch {
		copy(out[k.statePlace(b):][:k.hidden], state[b*k.hidden:])
	}
}

// statePlace returns where in Y_h the state of a sequence lies.
func (k *rnnKernel[T]) statePlace(b int) int {
	if k.batchFirst {
		return (b*len(k.directions) + k.index) * k.hidden
	}
	return (k.index*k.batch + b) * k.hidden
}

// step computes the state after one more input.
func (k *rnnKernel[T]) step(c *executor.Ctx) {
	if k.batch == 0 || k.hidden == 0 {
		return
	}
	rows := k.gates * k.hidden
	k.base = k.time * k.batch * rows
	if k.batchFirst {
		k.base = k.time * rows
	}
	k.recur.C = k.pre[k.base:]
	k.multiply(c, &k.recur)
	if k.kind == op.GRU {
		if k.linear {
			k.multiply(c, &k.again)
		} else {
			k.cells(c, (*gruReset[T])(k))
			k.again.C = k.pre[k.base+2*k.hidden:]
			k.multiply(c, &k.again)
		}
	}
	switch k.kind {
	case op.LSTM:
		k.cells(c, (*lstmCell[T])(k))
	case op.GRU:
		k.cells(c, (*gruCell[T])(k))
	default:
		k.cells(c, (*rnnCell[T])(k))
	}
}

func (k *rnnKernel[T]) multiply(c *executor.Ctx, g *blas.Gemm[T]) {
	tiles, grain := g.Plan()
	c.Parallel(tiles, grain, g)
}

func (k *rnnKernel[T]) cells(c *executor.Ctx, t executor.Task) {
	c.Parallel(k.batch*k.chunks, 8, t)
}

// cell returns the sequence and the elements of its row that item i of a loop over cells
// computes; ok is false if the sequence has ended.
func (k *rnnKernel[T]) cell(i int) (b, lo, hi int, ok bool) {
	b = i / k.chunks
	lo = i % k.chunks * rnnCellLen
	hi = min(lo+rnnCellLen, k.hidden)
	return b, lo, hi, k.lens == nil || k.time < int(k.lens[b])
}

// gate returns the elements lo..hi-1 of a gate's row in pre.
func (k *rnnKernel[T]) gate(b, gate, lo, hi int) []T {
	at := k.base + b*k.ld + gate*k.hidden
	return k.pre[at+lo : at+hi]
}

// store puts a part of the new state into Y; nil stands for zeros.
func (k *rnnKernel[T]) store(b, lo, hi int, h []T) {
	if k.y == nil {
		return
	}
	d := len(k.directions)
	at := ((k.time*d+k.index)*k.batch + b) * k.hidden
	if k.batchFirst {
		at = ((b*k.seq+k.time)*d + k.index) * k.hidden
	}
	y := k.y[at+lo : at+hi]
	if h == nil {
		clear(y)
		return
	}
	copy(y, h)
}
