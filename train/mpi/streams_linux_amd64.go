//go:build !nodl

package mpi

import (
	"memopt/graph"
	"memopt/train/collective"
)

// stream is an operation in rounds, with two rounds in transit at a time.
type stream interface {
	rounds(e *engine) int
	// post begins a round, with its requests in r; slot is the round's number modulo 2.
	post(e *engine, round, slot int, r *requests) error
	// done is called when all requests of a round are done.
	done(e *engine, round, slot int)
}

// run does all rounds of a stream.
func (e *engine) run(s stream) error {
	n := s.rounds(e)
	for i := range min(len(e.slots), n) {
		if err := s.post(e, i, i, &e.slots[i]); err != nil {
			return err
		}
	}
	for i := range n {
		slot := i % len(e.slots)
		if err := e.wait(&e.slots[slot]); err != nil {
			return err
		}
		s.done(e, i, slot)
		if next := i + len(e.slots); next < n {
			if err := s.post(e, next, slot, &e.slots[slot]); err != nil {
				return err
			}
		}
	}
	return nil
}

// pieces are the parts of a buffer that belong to the ranks, in bytes: per each, the last ones less.
type pieces struct{ total, per int }

// piecesOf divides a buffer for sums, whose pieces need not be equal; they begin at multiples of 64
// bytes, as loops over them like it.
func piecesOf(total, ranks int) pieces {
	per := (total + ranks - 1) / ranks
	return pieces{total, (per + 63) &^ 63}
}

// rounds is how many chunks the longest piece has.
func (p pieces) rounds(chunk int) int { return (min(p.per, p.total) + chunk - 1) / chunk }

// part is chunk i of a rank's piece of a buffer; it may be empty.
func (p pieces) part(buf []byte, rank, chunk, i int) []byte {
	end := min((rank+1)*p.per, p.total)
	from := min(rank*p.per+i*chunk, end)
	return buf[from:min(from+chunk, end)]
}

// stagingBytes is about how much memory the rounds of scatter take.
const stagingBytes = 4 << 20

// mostChunk is the longest message: longer ones are not faster.
const mostChunk = 512 << 10

// chunkBytes is the longest message of a round of scatter: of all other ranks, there is room for two.
func chunkBytes(ranks int) int {
	const least = 16 << 10
	return max(min(mostChunk, stagingBytes/(2*(ranks-1))), least) &^ 63
}

// scatter sums each rank's piece in that rank, in the order of the ranks: it receives the others'
// parts chunk by chunk, and sends its parts of their pieces.
type scatter struct {
	buf   []byte
	dtype graph.DType
	pieces
}

func (s *scatter) rounds(e *engine) int { return s.pieces.rounds(e.chunk) }

func (s *scatter) post(e *engine, round, slot int, r *requests) error {
	n := len(s.part(s.buf, e.rank, e.chunk, round))
	for q := range e.size {
		if q == e.rank {
			continue
		}
		if err := e.receive(r, e.stageOf(slot, q)[:n], q, tagData); err != nil {
			return err
		}
		if err := e.send(r, s.part(s.buf, q, e.chunk, round), q, tagData); err != nil {
			return err
		}
	}
	return nil
}

// stageOf is where a round receives another rank's part.
func (e *engine) stageOf(slot, q int) []byte {
	if q > e.rank {
		q--
	}
	return e.stages[slot][q*e.chunk : (q+1)*e.chunk]
}

// done adds the parts: sums are kept in that of rank 0 up to the last one, which is written to the
// buffer.
func (s *scatter) done(e *engine, round, slot int) {
	own := s.part(s.buf, e.rank, e.chunk, round)
	of := func(q int) []byte {
		if q == e.rank {
			return own
		}
		return e.stageOf(slot, q)[:len(own)]
	}
	sum := of(0)
	for q := 1; q < e.size; q++ {
		to := sum
		if q == e.size-1 {
			to = own
		}
		collective.Add(s.dtype, to, sum, of(q))
	}
}

// gather gives the ranks each rank's piece: all of them, or root alone.
type gather struct {
	all  []byte // nil in ranks without a result
	mine []byte // this rank's piece
	root int    // -1 means all
	pieces
}

func (g *gather) rounds(*engine) int { return g.pieces.rounds(mostChunk) }

func (g *gather) post(e *engine, round, _ int, r *requests) error {
	mine := g.mine[min(round*mostChunk, len(g.mine)):min((round+1)*mostChunk, len(g.mine))]
	for q := range e.size {
		if q == e.rank {
			continue
		}
		if g.root < 0 || g.root == e.rank {
			if err := e.receive(r, g.part(g.all, q, mostChunk, round), q, tagData); err != nil {
				return err
			}
		}
		if g.root < 0 || g.root == q {
			if err := e.send(r, mine, q, tagData); err != nil {
				return err
			}
		}
	}
	return nil
}

func (*gather) done(*engine, int, int) {}

// reduction sums as MPI does: whole buffers, or each rank's piece in that rank.
type reduction struct {
	buf       []byte
	dtype     graph.DType
	scattered bool
	pieces
}

// reductionChunk is the longest part of a buffer that is given to MPI at a time: the progress of an
// operation within MPI cannot be seen.
const reductionChunk = 1 << 20

func (d *reduction) rounds(*engine) int { return d.pieces.rounds(reductionChunk) }

func (d *reduction) post(e *engine, round, _ int, r *requests) error {
	v := &e.lib.values
	dtype, bytes := v[typeFloat], 4
	if d.dtype == graph.Float64 {
		dtype, bytes = v[typeDouble], 8
	}
	if !d.scattered {
		part := d.part(d.buf, 0, reductionChunk, round)
		return e.lib.do(fnIallreduce, e.lib.inPlace, address(part), uintptr(len(part)/bytes), dtype, v[opSum],
			v[commWorld], e.next(r))
	}
	for q := range e.size {
		part := d.part(d.buf, q, reductionChunk, round)
		from, to := address(part), uintptr(0)
		if q == e.rank {
			from, to = e.lib.inPlace, from
		}
		if err := e.lib.do(fnIreduce, from, to, uintptr(len(part)/bytes), dtype, v[opSum], uintptr(q), v[commWorld],
			e.next(r)); err != nil {
			return err
		}
	}
	return nil
}

func (*reduction) done(*engine, int, int) {}

// spread gives all ranks a buffer of one.
type spread struct {
	buf  []byte
	root int
}

func (s *spread) rounds(*engine) int { return pieces{len(s.buf), len(s.buf)}.rounds(reductionChunk) }

func (s *spread) post(e *engine, round, _ int, r *requests) error {
	v := &e.lib.values
	part := s.buf[round*reductionChunk : min((round+1)*reductionChunk, len(s.buf))]
	return e.lib.do(fnIbcast, address(part), uintptr(len(part)), v[typeByte], uintptr(s.root), v[commWorld], e.next(r))
}

func (*spread) done(*engine, int, int) {}

// allReduce sums whole buffers: each rank its piece, which the others then get.
func (e *engine) allReduce(o *operation) error {
	if !e.group.options.Exact {
		e.reduction = reduction{o.buf, o.DType, false, pieces{len(o.buf), len(o.buf)}}
		return e.run(&e.reduction)
	}
	p := piecesOf(len(o.buf), e.size)
	e.scatter = scatter{o.buf, o.DType, p}
	if err := e.run(&e.scatter); err != nil {
		return err
	}
	return e.gatherPieces(o.buf, p)
}

// reduceScatter sums each rank's piece.
func (e *engine) reduceScatter(o *operation) error {
	p := pieces{len(o.buf), len(o.buf) / e.size}
	if !e.group.options.Exact {
		e.reduction = reduction{o.buf, o.DType, true, p}
		return e.run(&e.reduction)
	}
	e.scatter = scatter{o.buf, o.DType, p}
	return e.run(&e.scatter)
}

// allGather gives all ranks all pieces.
func (e *engine) allGather(o *operation) error {
	return e.gatherPieces(o.buf, pieces{len(o.buf), len(o.buf) / e.size})
}

func (e *engine) gatherPieces(buf []byte, p pieces) error {
	mine := buf[min(e.rank*p.per, p.total):min((e.rank+1)*p.per, p.total)]
	e.gather = gather{buf, mine, -1, p}
	return e.run(&e.gather)
}

// exchange gives root, or all ranks, a message of each.
func (e *engine) exchange(o *operation) error {
	if o.Root < 0 || o.Root == e.rank {
		copy(o.all[e.rank*len(o.buf):], o.buf)
	}
	e.gather = gather{o.all, o.buf, o.Root, pieces{e.size * len(o.buf), len(o.buf)}}
	return e.run(&e.gather)
}

// broadcast gives all ranks the root's buffer.
func (e *engine) broadcast(o *operation) error {
	e.spread = spread{o.buf, o.Root}
	return e.run(&e.spread)
}
