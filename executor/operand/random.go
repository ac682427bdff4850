package operand

import (
	"math"

	"memopt/executor"
	"memopt/graph/op"
)

// Draws says which numbers a random node draws: the seed, and with First, Run and Stride, which are
// 0 unless the node computes a part of another, the places of its elements in the streams.
type Draws struct {
	Seed               uint64
	First, Run, Stride int
}

// Place returns the place of element i, and of how many elements from it on the places follow each
// other. It does not fail: numbers in metadata may exceed 64 bits, and wrap.
func (d Draws) Place(i int) (at uint64, follow int) {
	if d.Run == 0 {
		return uint64(d.First) + uint64(i), math.MaxInt
	}
	in := i % d.Run
	return uint64(d.First) + uint64(i/d.Run)*uint64(d.Stride) + uint64(in), d.Run - in
}

// DrawsOf returns the draws of a random node. The seed is that in the metadata of a part; otherwise
// the attribute seed, an integer or the bits of a float; otherwise the session's. The error is one
// of metadata, and names the node.
func DrawsOf(p *executor.Prep) (Draws, error) {
	part, _, err := op.DrawsOf(p.Node)
	if err != nil {
		return Draws{}, p.Errorf("%w", err)
	}
	d := Draws{Seed: p.Seed, First: int(part.First), Run: int(part.Run), Stride: int(part.Stride)}
	if part.Seed != nil {
		d.Seed = uint64(*part.Seed)
		return d, nil
	}
	if a := p.Node.Attr("seed"); a != nil {
		switch v := a.Value.(type) {
		case int64:
			d.Seed = uint64(v)
		case float32:
			d.Seed = uint64(math.Float32bits(v))
		}
	}
	return d, nil
}

// PhiloxKey returns the key under which a node with a seed draws in a training step, its low word
// being the generator's first. The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel
// random numbers: as easy as 1, 2, 3; SC 2011); the low 32 bits of the step are in its counter.
func PhiloxKey(seed, step uint64) uint64 {
	return SplitMix64(seed) + step>>32*0xD1342543DE82EF95
}

// SplitMix64 makes numbers that differ in many bits from seeds that differ in few: the output
// function of Steele, Lea, Flood: Fast splittable pseudorandom number generators; OOPSLA 2014.
func SplitMix64(z uint64) uint64 {
	z += 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
