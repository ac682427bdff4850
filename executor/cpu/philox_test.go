package cpu

import (
	"slices"
	"testing"

	"memopt/executor/operand"
)

// TestPhiloxKnownAnswers checks the vectors that Random123 publishes in its file
// tests/kat_vectors, lines "philox4x32 10".
func TestPhiloxKnownAnswers(t *testing.T) {
	for _, v := range [][10]uint32{
		{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
		{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
			0x6d5451fd},
		{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
			0x24126ea1},
	} {
		w0, w1, w2, w3 := philox(v[0], v[1], v[2], v[3], v[4], v[5])
		if got, want := [4]uint32{w0, w1, w2, w3}, [4]uint32(v[6:]); got != want {
			t.Errorf("philox(%x) = %x, wanted %x", v[:6], got, want)
		}
	}
}

// TestPhiloxRanges draws every range of a short sequence alone.
func TestPhiloxRanges(t *testing.T) {
	s := newPhiloxStream(operand.Draws{Seed: 7}, 1<<40+3, 0)
	all := make([]uint32, 23)
	s.fill(all, 0)
	for lo := range all {
		for hi := lo; hi <= len(all); hi++ {
			part := make([]uint32, hi-lo)
			s.fill(part, lo)
			if !slices.Equal(part, all[lo:hi]) {
				t.Fatalf("words %d to %d are %x, wanted %x", lo, hi, part, all[lo:hi])
			}
			from := newPhiloxStream(operand.Draws{Seed: 7, First: lo}, 1<<40+3, 0)
			for at := range part {
				from.fill(part[at:], at)
				if !slices.Equal(part[at:], all[lo+at:hi]) {
					t.Fatalf("from %d on: words %d to %d are %x, wanted %x", lo, at, hi-lo, part[at:], all[lo+at:hi])
				}
			}
		}
	}
}

// TestPhiloxRuns draws parts that have runs of each stride of the whole, from every element of theirs.
func TestPhiloxRuns(t *testing.T) {
	whole := newPhiloxStream(operand.Draws{Seed: 7}, 3, 1)
	all := make([]uint32, 400)
	whole.fill(all, 0)
	for first := range 9 {
		for run := 1; run < 70; run += 3 {
			for _, stride := range []int{run, run + 1, run + 29} {
				var want []uint32
				for at := first; at+run <= len(all); at += stride {
					want = append(want, all[at:at+run]...)
				}
				part := newPhiloxStream(operand.Draws{Seed: 7, First: first, Run: run, Stride: stride}, 3, 1)
				for from := range want {
					got := make([]uint32, len(want)-from)
					part.fill(got, from)
					if !slices.Equal(got, want[from:]) {
						t.Fatalf("%d of each %d from %d on: words from %d differ", run, stride, first, from)
					}
				}
			}
		}
	}
}

// TestPhiloxStreamsDiffer makes sure that seeds, steps and streams give other words.
func TestPhiloxStreamsDiffer(t *testing.T) {
	seen := map[[4]uint32]bool{}
	for _, s := range []philoxStream{
		newPhiloxStream(operand.Draws{}, 0, 0), newPhiloxStream(operand.Draws{Seed: 1}, 0, 0),
		newPhiloxStream(operand.Draws{}, 1, 0), newPhiloxStream(operand.Draws{}, 0, 1),
		newPhiloxStream(operand.Draws{}, 1<<33, 0), newPhiloxStream(operand.Draws{Seed: 1 << 32}, 0, 0),
	} {
		w := s.block(0)
		if seen[w] {
			t.Errorf("%+v repeats %x", s, w)
		}
		seen[w] = true
	}
}

// TestPhiloxWide compares the assembly with the plain function.
func TestPhiloxWide(t *testing.T) {
	if !philoxWide {
		t.Skip("this processor has no AVX2: there is no assembly to compare with; " +
			"any x86-64 processor since 2013 has it")
	}
	defer func() { philoxWide = true }()
	for _, s := range []philoxStream{newPhiloxStream(operand.Draws{Seed: 3}, 0, 0),
		newPhiloxStream(operand.Draws{Seed: 1 << 63}, 1<<32-1, 1),
		{1<<32 - 1, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1, operand.Draws{}}} {
		for _, first := range []int{0, 1, 4, 4*(1<<32) - 12, 1 << 60} {
			for _, n := range []int{0, 31, 32, 33, 64, 100, 1000} {
				wide, plain := make([]uint32, n+1), make([]uint32, n+1)
				philoxWide = true
				s.fill(wide[:n], first)
				philoxWide = false
				s.fill(plain[:n], first)
				if !slices.Equal(wide, plain) {
					t.Fatalf("%+v: words %d to %d differ", s, first, first+n)
				}
			}
		}
	}
}

func BenchmarkPhilox(b *testing.B) {
	words := make([]uint32, chunkLen)
	s := newPhiloxStream(operand.Draws{Seed: 1}, 1, 0)
	b.SetBytes(4 * chunkLen)
	for b.Loop() {
		s.fill(words, 0)
	}
}
