// Package mutate makes hostile inputs from valid ones, for fuzzing: ONNX models at the level of
// their messages, JSON, tables of comma-separated values, and numpy's archives. A mutant of a model
// is usually a file that decodes: its meaning is wrong, such as a missing operand, a contradictory
// type, a name that occurs twice, or a size that no machine has.
//
// The mutations are a function of a genome, a string of bytes, four for each mutation. So a fuzzer
// that mutates bytes mutates lists of mutations, and a finding is made smaller by leaving out genes
// (ShrinkGenome).
package mutate

import (
	"encoding/binary"
	"math/rand/v2"
)

// GeneLen is the number of bytes of a genome that decide about one mutation.
const GeneLen = 4

// most is the number of genes of a genome that count, and largest the size in bytes that ends the
// genes of a mutant.
const (
	most    = 64
	largest = 4 << 20
)

// genes returns a source of random numbers for every mutation of a genome. An incomplete gene is
// filled up with zeros.
func genes(genome []byte) []*rand.Rand {
	var list []*rand.Rand
	for len(genome) > 0 && len(list) < most {
		var gene [GeneLen]byte
		n := copy(gene[:], genome)
		genome = genome[n:]
		list = append(list, rand.New(rand.NewPCG(uint64(binary.LittleEndian.Uint32(gene[:])), 0x6d656d6f7074)))
	}
	return list
}

// Genome returns a genome of n genes.
func Genome(rng *rand.Rand, n int) []byte {
	var genome []byte
	for range n {
		genome = binary.LittleEndian.AppendUint32(genome, rng.Uint32())
	}
	return genome
}

// pick returns an element of a list that is not empty.
func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// one reports true one time in n.
func one(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }
