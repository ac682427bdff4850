package cpu

import (
	"memopt/executor/operand"
)

// Random numbers are those of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random
// numbers: as easy as 1, 2, 3; SC 2011), a function from a counter of four words and
// a key of two to a block of four words. Because blocks do not depend on each other, any part of a
// tensor can be drawn alone, by any thread, and drawn again.
//
//	key      = splitmix64(seed) + floor(step/2^32)*0xD1342543DE82EF95 modulo 2^64, low word first
//	counter  = block (64 bits, low word first), step mod 2^32, stream
//	word i   = word i mod 4 of block i/4
//
// An element of a node that computes a part of another has the place that it has in the whole.
//
// A stream is one sequence of words; a draw that needs more than 32 bits for an element takes
// word i of several streams.

// philox computes one block.
func philox(c0, c1, c2, c3, k0, k1 uint32) (w0, w1, w2, w3 uint32) {
	for range 10 {
		p := uint64(c0) * 0xD2511F53
		q := uint64(c2) * 0xCD9E8D57
		c0, c1 = uint32(q>>32)^c1^k0, uint32(q)
		c2, c3 = uint32(p>>32)^c3^k1, uint32(p)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c0, c1, c2, c3
}

// philoxStream is a sequence of 2^66 random words, and which of them are those of a node's elements.
type philoxStream struct {
	k0, k1, step, stream uint32
	draws                operand.Draws
}

func newPhiloxStream(d operand.Draws, step uint64, stream uint32) philoxStream {
	key := operand.PhiloxKey(d.Seed, step)
	return philoxStream{uint32(key), uint32(key >> 32), uint32(step), stream, d}
}

// fill sets dst to the words of the node's elements first, first+1, ...
func (s *philoxStream) fill(dst []uint32, first int) {
	for len(dst) > 0 {
		at, n := s.draws.Place(first)
		n = min(n, len(dst))
		s.words(dst[:n], at)
		dst, first = dst[n:], first+n
	}
}

// words sets dst to the words first, first+1, ...
func (s *philoxStream) words(dst []uint32, first uint64) {
	block := first / 4
	if skip := first % 4; skip != 0 {
		w := s.block(block)
		dst = dst[copy(dst, w[skip:]):]
		block++
	}
	if n := len(dst) / 32; n > 0 && philoxWide {
		philoxBlocks(&dst[0], n, block, s)
		dst = dst[32*n:]
		block += uint64(8 * n)
	}
	for ; len(dst) >= 4; block++ {
		d := dst[:4:4]
		d[0], d[1], d[2], d[3] = philox(uint32(block), uint32(block>>32), s.step, s.stream, s.k0, s.k1)
		dst = dst[4:]
	}
	if len(dst) > 0 {
		w := s.block(block)
		copy(dst, w[:])
	}
}

func (s *philoxStream) block(i uint64) (w [4]uint32) {
	w[0], w[1], w[2], w[3] = philox(uint32(i), uint32(i>>32), s.step, s.stream, s.k0, s.k1)
	return w
}

// uniformStream draws numbers of 53 random bits from [0, 1).
type uniformStream struct{ high, low philoxStream }

func newUniformStream(d operand.Draws, step uint64) uniformStream {
	return uniformStream{newPhiloxStream(d, step, 0), newPhiloxStream(d, step, 1)}
}

// fill sets dst, of at most chunkLen elements, to the numbers of the node's elements first, ...
func (u *uniformStream) fill(dst []float64, first int) {
	for len(dst) > 0 {
		at, n := u.high.draws.Place(first)
		n = min(n, len(dst))
		u.numbers(dst[:n], at)
		dst, first = dst[n:], first+n
	}
}

// numbers sets dst, of at most chunkLen elements, to the numbers first, first+1, ...
func (u *uniformStream) numbers(dst []float64, first uint64) {
	var high, low [chunkLen]uint32
	h, l := high[:len(dst)], low[:len(dst)]
	u.high.words(h, first)
	u.low.words(l, first)
	for i := range dst {
		dst[i] = float64(uint64(h[i])<<21|uint64(l[i])>>11) * 0x1p-53
	}
}
