package operand

import (
	"math"

	"memopt/executor"
)

// Seed returns the seed of a random node: the attribute seed, an integer, or a float whose bits
// count; otherwise what the session gives.
func Seed(p *executor.Prep) uint64 {
	if a := p.Node.Attr("seed"); a != nil {
		switch v := a.Value.(type) {
		case int64:
			return uint64(v)
		case float32:
			return uint64(math.Float32bits(v))
		}
	}
	return p.Seed
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
