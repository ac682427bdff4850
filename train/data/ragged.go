package data

import (
	"cmp"
	"slices"

	"memopt/executor"
)

// Ragged is a Source whose samples have sizes of their own along one dim of the inputs that are Ragged, for example
// the tokens of documents. Fill takes the size of a batch from its tensors, and fills up rows of smaller samples. With
// Empty as the sample, it writes a row that does not count.
type Ragged interface {
	Source
	// Sizes returns the size of each sample, at least 1.
	Sizes() []int32
}

// Empty is a sample for Ragged.Fill: a row that does not count in the loss.
const Empty = -1

// Rungs are at most n sizes that batches of samples from lo to hi are filled up to: hi, and smaller ones at equal
// distances, in ascending order.
func Rungs(lo, hi, n int64) (list []int64) {
	step := max((hi-lo+n)/n, 1)
	for size := hi; size >= lo && size > 0; size -= step {
		list = append(list, size)
	}
	slices.Reverse(list)
	return list
}

// Vary takes the sizes of a source's samples, and makes rungs of them, n at most: from least on, or the smallest
// sample. A source that is not Ragged leaves the order as it is.
func (o *Order) Vary(s Source, least, n int64) {
	r, ok := s.(Ragged)
	if !ok {
		return
	}
	o.Sizes = r.Sizes()
	lo, hi := slices.Min(o.Sizes), slices.Max(o.Sizes)
	o.Rungs = Rungs(max(least, int64(lo)), max(least, int64(hi)), n)
}

// Rung is the first of the order's rungs that holds a size.
func (o *Order) Rung(size int64) int64 {
	i, _ := slices.BinarySearch(o.Rungs, size)
	return o.Rungs[min(i, len(o.Rungs)-1)]
}

// Counts is how many batches of an epoch have which size.
func (o *Order) Counts(epoch int64) map[int64]int64 {
	counts, g := map[int64]int64{}, group{}
	for b := range o.Batches() {
		counts[o.sizeOf(g.batch(o, epoch, b))]++
	}
	return counts
}

// sizeOf is the size of a batch of samples.
func (o *Order) sizeOf(samples []int64) int64 {
	most := int32(0)
	for _, s := range samples {
		most = max(most, o.Sizes[s])
	}
	return o.Rung(int64(most))
}

// groupBatches is the number of batches whose samples are sorted by size, so that those of a batch are about as large
// as each other. LengthGroupedSampler of Hugging Face's transformers takes 50.
const groupBatches = 64

// group is the samples of groupBatches batches in a row, in their order; the zero value has those of no batch.
type group struct {
	of      bool
	epoch   int64
	number  int64
	samples []int64
}

// batch returns the samples of batch b of an epoch, the last one of which may have fewer than Order.Batch. With
// Shuffle, samples of groupBatches batches are sorted by size, cut into batches, and these are shuffled. Checkpoints
// rest on it, as on Order.Sample.
func (g *group) batch(o *Order, epoch, b int64) []int64 {
	rows, all := int64(o.Batch), o.Batches()*int64(o.Batch)
	if o.Last == Keep {
		all = o.Samples
	}
	if n := b / groupBatches; !g.of || g.epoch != epoch || g.number != n {
		g.of, g.epoch, g.number, g.samples = true, epoch, n, g.samples[:0]
		first := n * groupBatches * rows
		for k := first; k < min(first+groupBatches*rows, all); k++ {
			g.samples = append(g.samples, o.Sample(epoch, k))
		}
		if o.Shuffle { // the smallest last: those of a batch with fewer rows
			slices.SortStableFunc(g.samples, func(x, y int64) int { return cmp.Compare(o.Sizes[y], o.Sizes[x]) })
		}
	}
	at := b % groupBatches
	if full := int64(len(g.samples)) / rows; o.Shuffle && at < full {
		at = Order{Samples: full, Seed: mix(o.Seed ^ uint64(g.number)), Shuffle: true}.Sample(epoch, at)
	}
	return g.samples[at*rows : min((at+1)*rows, int64(len(g.samples)))]
}

// fillRagged is fill for samples of different sizes. All batches have Order.Batch rows: the rest of the last one of an
// epoch are Empty.
func (l *Loader) fillRagged(b *Batch, epoch, index int64) error {
	samples := l.group.batch(&l.order, epoch, index)
	b.Rows, b.Epoch, b.Index, b.Size = l.order.Batch, epoch, index, l.order.sizeOf(samples)
	for i, in := range l.inputs {
		if t := b.Tensors[i]; in.Ragged {
			t.Shape[len(t.Shape)-1] = int(b.Size)
			n, _ := executor.Bytes(t.DType, t.Shape)
			t.Data = b.full[i][:n]
		}
	}
	for row := range b.Rows {
		at := int64(Empty)
		if row < len(samples) {
			at = epoch*l.order.Samples + samples[row]
		}
		if err := l.src.Fill(at, row, b.Tensors); err != nil {
			return err
		}
	}
	return nil
}
