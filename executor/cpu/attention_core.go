package cpu

import (
	"math"
	"unsafe"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/internal/simd"
)

// attentionHeads are rows of heads.
type attentionHeads[T any] struct {
	data []T
	HeadLayout
}

// at returns the elements from row i of a head on.
func (h *attentionHeads[T]) at(b, head, i int) []T {
	return h.data[h.First+b*h.Batch+head*h.Head+i*h.Row:]
}

// attentionMask is added to the scores or, if its elements are bools, admits keys.
type attentionMask[T any] struct {
	AttentionMask
	add   []T
	admit []uint8
}

// attentionPadding lowers the scores of keys by a value: those where the mask is 0, or those
// outside starts..ends-1 of their batch entry.
type attentionPadding[T any] struct {
	value        T
	mask         []int32
	batch, query int // strides of the mask
	starts, ends []int32
}

// attentionCore computes softmax(softcap(scale*Q*K') + mask) * V for every head:
// blocks of queries of one head at a time, whose scores stay in the cache.
type attentionCore[T blas.Float] struct {
	AttentionSizes
	q, k, v, y      attentionHeads[T]
	scale, softcap  T // softcap 0 means no cap
	causal          bool
	mask            attentionMask[T]
	padding         attentionPadding[T]
	lengths         []int64 // keys of each batch entry; nil means all
	scores          []T     // output of scores, [batch, headsQ, seqQ, total]; nil if not wanted
	stage           int     // which scores: 0 products, 1 after softcap, 2 after masks, 3 probabilities
	wide            bool    // softmax in float64
	rows            int     // in a block
	strands, blocks int
	work            []T
}

// attentionWork is the most scores that a block of queries has, except with long rows.
const attentionWork = 1 << 17

// block chooses how many queries are done together, from the shapes alone, and returns the elements
// of workspace that a run with the given number of threads takes.
func (k *attentionCore[T]) block(threads int) int {
	k.rows = min(max(attentionWork/max(k.Total, 1), 16), 256, max(k.SeqQ, 1))
	k.blocks = k.Batch * k.HeadsQ * ((k.SeqQ + k.rows - 1) / k.rows)
	k.strands = min(k.blocks, 4*max(threads, 1))
	return k.strands * k.rows * k.Total
}

// compute runs all blocks. Strand i takes blocks i, i+strands, i+2*strands…, as one piece of work.
func (k *attentionCore[T]) compute(c *executor.Ctx) {
	n := k.block(c.Prep().Threads)
	k.work = executor.ScratchOf[T](c, n)
	c.Parallel(k.strands, 1, (*attentionBlocks[T])(k))
}

type attentionBlocks[T blas.Float] attentionCore[T]

// Range does the blocks of strands lo..hi-1.
func (k *attentionBlocks[T]) Range(lo, hi int) {
	each := k.rows * k.Total
	per := (k.SeqQ + k.rows - 1) / k.rows
	for s := lo; s < hi; s++ {
		for block := s; block < k.blocks; block += k.strands {
			head := block / per
			first := block % per * k.rows
			k.one(head/k.HeadsQ, head%k.HeadsQ, first, min(k.rows, k.SeqQ-first), k.work[s*each:][:each])
		}
	}
}

// one does the queries first..first+rows-1 of a head.
func (k *attentionBlocks[T]) one(b, head, first, rows int, work []T) {
	kv := head / (k.HeadsQ / k.HeadsKV)
	n := k.visible(b, first+rows-1)
	if k.scores != nil {
		n = k.Total
	}
	if n > 0 {
		blas.Multiply(false, true, rows, n, k.Size, k.scale, k.q.at(b, head, first), max(k.q.Row, 1),
			k.k.at(b, kv, 0), max(k.k.Row, 1), 0, work, n)
	}
	for i := range rows {
		k.probabilities(b, head, first+i, work[i*n:][:n])
	}
	y := k.y.at(b, head, first)
	if n > 0 {
		blas.Multiply(false, false, rows, k.SizeV, n, 1, work, n, k.v.at(b, kv, 0), max(k.v.Row, 1), 0, y,
			max(k.y.Row, 1))
		return
	}
	for i := range rows {
		clear(y[i*k.y.Row:][:k.SizeV])
	}
}

// visible returns how many keys query i may look at: up to the last of its batch entry and, if the
// attention is causal, up to the query's own position.
func (k *attentionBlocks[T]) visible(b, i int) int {
	n := k.Total
	if k.lengths != nil {
		n = min(n, int(k.lengths[b]))
	}
	if !k.causal {
		return n
	}
	before := k.Past
	if k.lengths != nil && k.Past == 0 {
		before = int(k.lengths[b]) - k.SeqQ
	}
	return max(0, min(n, before+i+1))
}

// probabilities turns the scores of a query into the weights of values.
func (k *attentionBlocks[T]) probabilities(b, head, i int, row []T) {
	k.show(0, b, head, i, row)
	if k.softcap != 0 {
		attentionSoftcap(row, k.softcap)
	}
	k.show(1, b, head, i, row)
	k.applyMask(b, head, i, row)
	k.applyPadding(b, i, row)
	if n := k.visible(b, i); n < len(row) {
		for j := range row[n:] {
			row[n+j] = T(math.Inf(-1))
		}
	}
	k.show(2, b, head, i, row)
	attentionSoftmax(row, k.wide)
	k.show(3, b, head, i, row)
}

// show writes scores to their output, if they are wanted at this stage.
func (k *attentionBlocks[T]) show(stage, b, head, i int, row []T) {
	if k.scores != nil && stage == k.stage {
		copy(k.scores[((b*k.HeadsQ+head)*k.SeqQ+i)*k.Total:], row)
	}
}

func (k *attentionBlocks[T]) applyMask(b, head, i int, row []T) {
	m := &k.mask
	at, step := b*m.Strides[0]+head*m.Strides[1]+i*m.Strides[2], m.Strides[3]
	n := min(len(row), m.Cols)
	switch {
	case m.add != nil:
		for j := range row[:n] {
			row[j] += m.add[at+j*step]
		}
	case m.admit != nil:
		for j := range row[:n] {
			if m.admit[at+j*step] == 0 {
				row[j] = T(math.Inf(-1))
			}
		}
	default:
		return
	}
	for j := n; j < len(row); j++ {
		row[j] = T(math.Inf(-1))
	}
}

func (k *attentionBlocks[T]) applyPadding(b, i int, row []T) {
	p := &k.padding
	if p.mask != nil {
		for j, m := range p.mask[b*p.batch+i*p.query:][:len(row)] {
			if m == 0 {
				row[j] += p.value
			}
		}
	}
	if p.ends != nil {
		for j := max(0, int(p.ends[b])); j < len(row); j++ {
			row[j] += p.value
		}
	}
	if p.starts != nil {
		for j := range row[:max(0, min(int(p.starts[b]), len(row)))] {
			row[j] += p.value
		}
	}
}

// attentionSoftcap sets x = limit*tanh(x/limit).
func attentionSoftcap[T blas.Float](x []T, limit T) {
	if s := floats32(x); s != nil {
		for i := range s {
			s[i] /= float32(limit)
		}
		simd.Tanh(s, s)
		simd.MulScalar(s, s, float32(limit))
		return
	}
	for i, v := range x {
		x[i] = T(float64(limit) * math.Tanh(float64(v/limit)))
	}
}

// attentionSoftmax sets x = e^x / sum(e^x); all 0 if all x are -Inf, that is, if a query may look
// at no key.
func attentionSoftmax[T blas.Float](x []T, wide bool) {
	if len(x) == 0 {
		return
	}
	if s := floats32(x); s != nil && !wide {
		m := simd.Max(s)
		if math.IsInf(float64(m), -1) {
			clear(s)
			return
		}
		simd.MulScalar(s, s, 1/simd.ExpSum(s, s, m))
		return
	}
	m := x[0]
	for _, v := range x {
		m = max(m, v)
	}
	if math.IsInf(float64(m), -1) {
		clear(x)
		return
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - float64(m))
	}
	for i, v := range x {
		x[i] = T(math.Exp(float64(v)-float64(m)) / sum)
	}
}

// floats32 returns x as float32 elements, or nil if they are wider.
func floats32[T blas.Float](x []T) []float32 {
	if unsafe.Sizeof(*unsafe.SliceData(x)) != 4 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// attentionCache writes keys or values after those of a cache: [batch, heads, past+seq, size].
type attentionCache[T any] struct {
	old, new, all            attentionHeads[T]
	heads, past, total, size int
}

// Range writes heads lo..hi-1, counted over all batch entries.
func (k *attentionCache[T]) Range(lo, hi int) {
	for r := lo; r < hi; r++ {
		b, head := r/k.heads, r%k.heads
		for i := range k.total {
			from := &k.old
			at := i
			if i >= k.past {
				from, at = &k.new, i-k.past
			}
			copy(k.all.at(b, head, i)[:k.size], from.at(b, head, at)[:k.size])
		}
	}
}
