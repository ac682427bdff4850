package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph/op"
	"memopt/internal/half"
)

// stochasticRound rounds float32 to bfloat16 by the operator's random bits.
type stochasticRound struct {
	seed   uint64
	stream philoxStream
	x, y   *executor.Tensor
}

func newStochasticRound(p *executor.Prep) (executor.Kernel, error) {
	return &stochasticRound{seed: uint64(p.Node.Int("seed", 0))}, nil
}

// Run rounds.
func (k *stochasticRound) Run(c *executor.Ctx) error {
	step, err := roundingStep(c, 1)
	if err != nil {
		return err
	}
	k.x, k.y = c.In(0), c.Out(0, c.In(0).Shape...)
	k.stream = roundingStream(k.seed, step)
	c.Parallel(k.x.Len(), 1<<14, k)
	return nil
}

// Range computes elements.
func (k *stochasticRound) Range(lo, hi int) {
	var buf [chunkLen]uint32
	x, y := executor.Of[float32](k.x), executor.Of[half.BFloat16](k.y)
	for i := lo; i < hi; i += chunkLen {
		j := min(i+chunkLen, hi)
		words := buf[:j-i]
		k.stream.fill(words, i)
		roundByChance(y[i:j], x[i:j], words)
	}
}

// roundingStep reads the number of the update.
func roundingStep(c *executor.Ctx, slot int) (uint64, error) {
	t := c.In(slot)
	if t.Len() != 1 {
		return 0, c.Errorf("input %d, the step, is %v, wanted one number", slot, t)
	}
	return uint64(executor.Of[int64](t)[0]), nil
}

// roundingStream has the words of a step: a seed is the key, a step the counter's other half.
func roundingStream(seed, step uint64) philoxStream {
	return philoxStream{k0: uint32(seed), k1: uint32(seed >> 32), step: uint32(step), stream: uint32(step >> 32)}
}

// roundByChance rounds each number by the high bits of a word.
func roundByChance(dst []half.BFloat16, x []float32, words []uint32) {
	for i, v := range x {
		if b := math.Float32bits(v); op.StochasticRounds(math.Float32frombits(b &^ (1 << 31))) {
			dst[i] = half.BFloat16((b + words[i]>>16) >> 16)
		} else {
			dst[i] = half.BFloat16From(v)
		}
	}
}
