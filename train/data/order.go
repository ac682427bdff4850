package data

import (
	"fmt"
	"math/bits"
)

// Last is the fate of the samples at the end of an epoch that do not fill a batch. For example,
// with 10 samples in batches of 4, two are left over.
type Last int

// Ways to treat the last samples.
const (
	Keep Last = iota // they are a batch of their own, with fewer rows
	Drop             // they are left out
	Pad              // samples from the epoch's beginning fill it, as in PyTorch's DistributedSampler
)

var lastNames = [...]string{Keep: "keep", Drop: "drop", Pad: "pad"}

// String returns keep, drop or pad.
func (l Last) String() string {
	if l < 0 || int(l) >= len(lastNames) {
		return fmt.Sprintf("Last(%d)", int(l))
	}
	return lastNames[l]
}

// ParseLast is the inverse of String.
func ParseLast(text string) (Last, error) {
	for l, name := range lastNames {
		if name == text {
			return Last(l), nil
		}
	}
	return 0, fmt.Errorf("last batch %q: wanted keep, drop or pad", text)
}

// Order decides the sequence of the samples in an epoch.
type Order struct {
	Samples int64 // of an epoch
	Batch   int   // samples per batch
	Seed    uint64
	Shuffle bool // else the order of the files
	Last    Last
	// Sizes has the size of each sample where sizes differ (Ragged), Rungs the sizes of batches in ascending order;
	// nil where all have one size. A batch has the first rung that holds its largest sample.
	Sizes []int32
	Rungs []int64
}

// Check returns an error if an epoch has no batches.
func (o Order) Check() error {
	switch {
	case o.Samples <= 0:
		return fmt.Errorf("no samples: wanted at least one")
	case o.Batch <= 0:
		return fmt.Errorf("batch of %d samples: wanted at least one", o.Batch)
	case o.Batches() == 0:
		return fmt.Errorf("%d samples make no batch of %d, and the last batch is dropped where it "+
			"is not full: keep or pad it, or take smaller batches", o.Samples, o.Batch)
	}
	return nil
}

// Batches returns the number of batches of an epoch.
func (o Order) Batches() int64 {
	n := o.Samples / int64(o.Batch)
	if o.Last != Drop && o.Samples%int64(o.Batch) != 0 {
		n++
	}
	return n
}

// Rows returns the number of samples of batch b of an epoch.
func (o Order) Rows(b int64) int {
	if o.Last == Pad {
		return o.Batch
	}
	return int(min(int64(o.Batch), o.Samples-b*int64(o.Batch)))
}

// Sample returns the sample at place k of an epoch. Places from Samples on, which padding needs,
// begin anew. With Shuffle it is a permutation of the samples, another one for each seed and epoch,
// that needs neither memory nor the places before k.
//
// The permutation is a Feistel network: the bits of a place are cut in two halves, and each half in
// turn is changed by a hash of the other, which is invertible for any hash. That permutes all
// numbers of so many bits, fewer than 2*Samples; a result that is no sample is put in again until
// it is one (cycle walking), which keeps it a permutation. Black and Rogaway, "Ciphers with
// Arbitrary Finite Domains" (2002).
//
// Checkpoints rest on this function: its results for given arguments never change.
func (o Order) Sample(epoch, k int64) int64 {
	if k %= o.Samples; !o.Shuffle || o.Samples == 1 {
		return k
	}
	width := bits.Len64(uint64(o.Samples - 1))
	right := width / 2
	left := width - right
	lmask, rmask := uint64(1)<<left-1, uint64(1)<<right-1
	key := mix(mix(o.Seed) + uint64(epoch)*golden)
	for x := uint64(k); ; {
		l, r := x>>right, x&rmask
		for round := uint64(0); round < feistelRounds; round += 2 {
			l ^= mix(key+(2*r+1)*golden+round<<56) & lmask
			r ^= mix(key+(2*l+1)*golden+(round+1)<<56) & rmask
		}
		if x = l<<right | r; x < uint64(o.Samples) {
			return int64(x)
		}
	}
}

// feistelRounds is even. Four rounds of a random function are enough for a permutation that cannot
// be told from a random one by its pairs (Luby and Rackoff); small halves need more.
const feistelRounds = 12

// golden is 2^64 divided by the golden ratio, the step of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), a permutation of all numbers of
// 64 bits.
func mix(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
