package data

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"memopt/executor"
	"memopt/internal/caught"
	"memopt/internal/memlimit"
)

// Batch is the data of one step.
type Batch struct {
	Tensors      []*executor.Tensor // by place of input; the first dim of batched ones is Rows
	Rows         int                // samples, those that pad a batch included
	Epoch, Index int64              // the epoch, and the place of the batch in it, both from 0
	Size         int64              // that of its rows, where sizes differ (Order.Sizes); else 0
	// Idle says that the epoch has no batch left for this rank: the tensors are those of another one.
	Idle bool
	full [][]byte // the memory of Tensors where all rows are there
}

// Share is which batches a rank of several takes: in every turn, each of Ranks takes one, in their order.
// The zero value takes all.
type Share struct{ Rank, Ranks int64 }

// turn is how many batches all ranks together take in a turn.
func (s Share) turn() int64 { return max(s.Ranks, 1) }

// Loader prepares batches ahead, in a goroutine of its own. Its methods are for one goroutine.
type Loader struct {
	src    Source
	inputs []Input
	order  Order
	share  Share
	group  group

	ready  chan *Batch   // prepared, in order; closed after an error
	free   chan *Batch   // not in use
	quit   chan struct{} // closed by Close
	worker sync.WaitGroup
	err    error // why ready is closed; read after that
	lent   int   // batches that the caller has
	close  sync.Once
}

// NewLoader returns a loader that begins with a batch of an epoch; where several ranks share them, with
// the turn that begins there. inputs are those of the source, without Unknown dims. ahead is how many
// batches are prepared before they are asked for, at least 1. Errors, of an order without batches too,
// are those of Next.
func NewLoader(src Source, inputs []Input, o Order, share Share, epoch, index int64, ahead int) *Loader {
	ahead = max(ahead, 1)
	l := &Loader{src: src, inputs: inputs, order: o, share: share,
		ready: make(chan *Batch, ahead), free: make(chan *Batch, ahead+1), quit: make(chan struct{})}
	l.worker.Add(1)
	go func() {
		defer l.worker.Done()
		defer close(l.ready)
		defer caught.Panic(&l.err)
		l.err = l.work(epoch, index)
	}()
	return l
}

// errClosed is the error of Next after Close.
var errClosed = errors.New("the loader is closed")

// Next returns the next batch, endlessly: epoch after epoch. The batch belongs to the caller until
// Done. An error of the source is returned where its batch would have been, and from then on.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if l.lent == cap(l.free) {
		return nil, fmt.Errorf("all %d batches are in use: call Done", l.lent)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case b, ok := <-l.ready:
		if !ok {
			return nil, l.err
		}
		l.lent++
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done gives a batch back.
func (l *Loader) Done(b *Batch) {
	l.lent--
	l.free <- b
}

// Close ends the goroutine and waits for it. Batches that are prepared are lost, those that the
// caller has stay valid.
func (l *Loader) Close() {
	l.close.Do(func() { close(l.quit) })
	l.worker.Wait()
}

// work prepares batches until Close, or up to the first error.
func (l *Loader) work(epoch, index int64) error {
	if err := l.begin(epoch, index); err != nil {
		return err
	}
	for count := l.order.Batches(); ; epoch, index = epoch+1, 0 {
		for ; index < count; index += l.share.turn() {
			var b *Batch
			select {
			case <-l.quit:
				return errClosed
			case b = <-l.free:
			}
			if err := l.fill(b, epoch, index); err != nil {
				return err
			}
			select {
			case <-l.quit:
				return errClosed
			case l.ready <- b:
			}
		}
	}
}

// begin checks the arguments and allocates the batches.
func (l *Loader) begin(epoch, index int64) error {
	if err := l.order.Check(); err != nil {
		return err
	}
	if epoch < 0 || index < 0 || index > l.order.Batches() {
		return fmt.Errorf("batch %d of epoch %d: an epoch has %d batches",
			index, epoch, l.order.Batches())
	}
	if most := MaxEpoch(l.order.Samples); epoch > most {
		return fmt.Errorf("epoch %d of %d samples: the last one is number %d", epoch, l.order.Samples, most)
	}
	for range cap(l.free) {
		b, err := newBatch(l.inputs, l.order.Batch)
		if err != nil {
			return err
		}
		l.free <- b
	}
	return nil
}

// MaxEpoch is the last epoch of so many samples: samples of all epochs are counted in 63 bits, and some of
// the next epoch are prepared ahead.
func MaxEpoch(samples int64) int64 { return math.MaxInt64/max(samples, 1) - 2 }

func newBatch(inputs []Input, rows int) (*Batch, error) {
	b := &Batch{Tensors: make([]*executor.Tensor, len(inputs)), full: make([][]byte, len(inputs))}
	for i, in := range inputs {
		t := &executor.Tensor{DType: in.DType}
		if in.Batched {
			t.Shape = append(t.Shape, rows)
		}
		t.Shape = append(t.Shape, in.Shape...)
		n, ok := executor.Bytes(t.DType, t.Shape)
		if !ok {
			return nil, fmt.Errorf("input %q: %v is not a type of data", in.Name, t)
		}
		if err := memlimit.Check(int64(n), "a batch of input %q (%v)", in.Name, t); err != nil {
			return nil, err
		}
		t.Data = make([]byte, (n+7)&^7)[:n]
		b.Tensors[i], b.full[i] = t, t.Data
	}
	return b, nil
}

// fill makes b this rank's batch of the turn that begins at a place of an epoch.
func (l *Loader) fill(b *Batch, epoch, index int64) error {
	index += l.share.Rank
	if b.Idle = index >= l.order.Batches(); b.Idle {
		index = 0
	}
	if l.order.Sizes != nil {
		return l.fillRagged(b, epoch, index)
	}
	b.Rows, b.Epoch, b.Index = l.order.Rows(index), epoch, index
	for i, in := range l.inputs {
		if t := b.Tensors[i]; in.Batched {
			t.Shape[0] = b.Rows
			t.Data = b.full[i][:len(b.full[i])/l.order.Batch*b.Rows]
		}
	}
	for row := range b.Rows {
		k := l.order.Sample(epoch, index*int64(l.order.Batch)+int64(row))
		if err := l.src.Fill(epoch*l.order.Samples+k, row, b.Tensors); err != nil {
			return err
		}
	}
	return nil
}
