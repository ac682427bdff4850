package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/operand"
	"memopt/graph"
)

// headRows are rows of heads in memory.
type headRows struct {
	data []byte
	cpu.HeadLayout
}

// attentionCore computes softmax(softcap(scale*Q*K') + masks)*V: two products of the library with
// kernels/attention.h between them. Scores take workspace for a part of the batch, of the heads or
// of the queries at a time.
type attentionCore struct {
	cpu.AttentionSizes
	d       *Device
	t       graph.DType
	size    int // bytes of an element
	product *product
	softmax *launch
	axes    []batchAxis
	cache   boxCopy

	q, k, v, y     headRows
	scale, softcap float32
	causal         bool
	mask           cpu.AttentionMask
	maskData       []byte // nil without a mask
	admits         bool   // the mask's elements are bools
	lengths        []byte // int64 for each entry of the batch; nil means all keys
	show           []byte // output of scores; nil if not wanted
	stage          int
}

// newAttentionCore loads the kernels.
func newAttentionCore(d *Device, p *executor.Prep) (k attentionCore, err error) {
	t := p.DType(0)
	k.d, k.t, k.size = d, t, operand.ElementBytes(t)
	if !isFloat(t) {
		return k, noTypes(p)
	}
	if k.product, err = d.productOf(p, t); err != nil {
		return k, err
	}
	if k.cache, err = newBoxCopy(d, p, k.size); err != nil {
		return k, err
	}
	k.softmax, err = d.launch("attention_"+suffix(t), "attention_"+suffix(t))
	return k, err
}

// attentionScores is how many bytes of scores are computed at once: enough to keep a GPU busy. A
// few queries of one head may take more.
var attentionScores = 64 << 20

// attentionQueries is the least number of queries that are processed together, if there are that
// many.
var attentionQueries = 64

// attentionPart is how much is processed at once: entries of the batch, heads of keys and queries.
// Only the first of these that is not 1 may be less than the total.
type attentionPart struct{ entries, heads, queries int }

// part chooses the part from the shapes alone, and returns the bytes of its scores.
func (k *attentionCore) part(s *cpu.AttentionSizes) (attentionPart, int) {
	group := s.HeadsQ / max(s.HeadsKV, 1)
	row := max(k.size*s.Total, 1)
	p := attentionPart{entries: s.Batch, heads: s.HeadsKV, queries: s.SeqQ}
	if most := attentionScores / max(row*s.SeqQ*s.HeadsQ, 1); p.entries > most {
		p.entries = max(most, 1)
	}
	if most := attentionScores / max(row*s.SeqQ*group, 1); p.entries == 1 && p.heads > most {
		p.heads = max(most, 1)
	}
	if most := max(attentionScores/max(row*group, 1), attentionQueries); p.entries == 1 && p.heads == 1 &&
		p.queries > most {
		p.queries = most
	}
	return p, row * p.entries * p.heads * group * p.queries
}

// space is the workspace for the sizes.
func (k *attentionCore) space(s *cpu.AttentionSizes) int {
	_, n := k.part(s)
	return executor.RoundUp(n) + k.d.libraryWorkspace()
}

// begin takes the library's workspace.
func (k *attentionCore) begin(c *executor.Ctx) {
	k.product.gemm.Workspace = c.Scratch(k.d.libraryWorkspace())
}

// compute computes Y. The run has begun.
func (k *attentionCore) compute(c *executor.Ctx) error {
	if len(k.y.data) == 0 && len(k.show) == 0 {
		return nil
	}
	part, n := k.part(&k.AttentionSizes)
	work := c.Scratch(n)
	if k.Total == 0 {
		return k.d.Memory().Fill(k.y.data, 0)
	}
	for entry := 0; entry < k.Batch; entry += part.entries {
		for head := 0; head < k.HeadsKV; head += part.heads {
			for query := 0; query < k.SeqQ; query += part.queries {
				now := attentionPart{min(part.entries, k.Batch-entry), min(part.heads, k.HeadsKV-head),
					min(part.queries, k.SeqQ-query)}
				if err := k.one(attentionPart{entry, head, query}, now, work); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// one computes a part, from the given entry, head and query on.
func (k *attentionCore) one(from, n attentionPart, work []byte) error {
	group, g := k.HeadsQ/k.HeadsKV, &k.product.gemm
	scores := headRows{work, cpu.SeparateHeads(n.queries, n.heads*group, k.Total)}
	q, y := k.q.from(k.size, from, group), k.y.from(k.size, from, group)
	all := attentionPart{from.entries, from.heads, 0}
	key, value := k.k.from(k.size, all, 1), k.v.from(k.size, all, 1)

	g.M, g.N, g.K, g.TransB, g.Alpha = n.queries, k.Total, k.Size, true, float64(k.scale)
	if k.Size == 0 {
		if err := k.d.Memory().Fill(work, 0); err != nil {
			return err
		}
	} else if err := k.multiply(n, group, q, key, scores); err != nil {
		return err
	}
	if err := k.weigh(from, n, work); err != nil || k.SizeV == 0 {
		return err
	}
	g.M, g.N, g.K, g.TransB, g.Alpha = n.queries, k.SizeV, k.Total, false, 1
	return k.multiply(n, group, scores, value, y)
}

// from returns the rows from an entry, a head and a query on; group is how many heads there are for
// each that is counted.
func (h headRows) from(size int, at attentionPart, group int) headRows {
	first := h.First + at.entries*h.Batch + at.heads*group*h.Head + at.queries*h.Row
	h.data = h.data[min(first*size, len(h.data)):]
	return h
}

// multiply multiplies matrices of all heads; b's are the same for all heads of a group.
func (k *attentionCore) multiply(n attentionPart, group int, a, b, y headRows) error {
	k.axes = append(k.axes[:0], batchAxis{n.entries, a.Batch, b.Batch, y.Batch},
		batchAxis{n.heads, group * a.Head, b.Head, group * y.Head}, batchAxis{group, a.Head, 0, y.Head})
	k.product.spread(longestLast(mergeBatch(k.axes)))
	g := &k.product.gemm
	g.LDA, g.LDB, g.LDC = a.Row, b.Row, y.Row
	return k.product.run(a.data, b.data, y.data)
}

// weigh makes weights of scores.
func (k *attentionCore) weigh(from, n attentionPart, work []byte) error {
	group := k.HeadsQ / k.HeadsKV
	rows := n.entries * n.heads * group * n.queries
	a := k.softmax.begin().Out(work[:k.size*rows*k.Total]).In(k.maskData).In(k.lengths).Out(k.show).
		Int(rows).Int(k.Total).Int(from.entries).Int(from.heads * group).Int(from.queries).Int(n.queries).
		Int(n.heads * group).Int(k.SeqQ).Int(k.HeadsQ)
	for _, s := range k.mask.Strides {
		a.Int(s)
	}
	a.Int(k.mask.Cols).Int(k.Past).Float32(k.softcap).Uint32(flag(k.admits)).Uint32(flag(k.causal)).
		Uint32(uint32(k.stage)).Uint32(wide(k.t, k.Total))
	return k.softmax.teams(rows, k.Total)
}

// behind writes keys or values behind those of a cache, old, into all: [batch, heads, total, size].
func (k *attentionCore) behind(c *executor.Ctx, old, all []byte, fresh headRows, size int) (headRows, error) {
	y := headRows{all, cpu.SeparateHeads(k.Total, k.HeadsKV, size)}
	past := headRows{old, cpu.SeparateHeads(k.Past, k.HeadsKV, size)}
	if err := k.copyRows(c, y, 0, past, k.Past, size); err != nil {
		return y, err
	}
	return y, k.copyRows(c, y, k.Past, fresh, k.Total-k.Past, size)
}

// copyRows copies n rows of every head to rows from first on.
func (k *attentionCore) copyRows(c *executor.Ctx, to headRows, first int, from headRows, n, size int) error {
	if k.Batch*k.HeadsKV*n*size == 0 {
		return nil
	}
	k.cache.Begin()
	k.cache.Add(k.Batch, to.Batch, from.Batch)
	k.cache.Add(k.HeadsKV, to.Head, from.Head)
	k.cache.Add(n, to.Row, from.Row)
	k.cache.Add(size, 1, 1)
	return k.cache.Copy(c, to.data, first*to.Row, from.data, from.First)
}

// presentSpace is the workspace for keys or values behind those of a cache, where there is one.
func presentSpace(s *cpu.AttentionSizes, bytes, size int) int {
	if s.Past == 0 {
		return 0
	}
	return executor.RoundUp(bytes * s.Batch * s.HeadsKV * s.Total * size)
}

// present returns the keys or values from the first of the cache, input past, to the last, and
// writes them to output out if it is wanted.
func (k *attentionCore) present(c *executor.Ctx, out, past int, fresh headRows, size int) (headRows, error) {
	if k.Past == 0 && !c.Wants(out) {
		return fresh, nil
	}
	var all []byte
	if t := c.Out(out, k.Batch, k.HeadsKV, k.Total, size); t != nil {
		all = t.Data
	} else {
		all = c.Scratch(k.size * k.Batch * k.HeadsKV * k.Total * size)
	}
	return k.behind(c, dataOf(c.In(past)), all, fresh, size)
}
