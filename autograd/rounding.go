package autograd

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// byChance reports whether an update rounds values of a type stochastically, and requires the operator set for it.
func (u *updater) byChance(d graph.DType) bool {
	if !u.Stochastic || d != graph.BFloat16 {
		return false
	}
	u.need(op.StochasticSince)
	return true
}

// rounded converts the next value of a state to its type.
func (u *updater) rounded(v Value, d graph.DType, state string) Value {
	if u.DType(v) == d || !u.byChance(d) {
		return u.Cast(v, d)
	}
	return u.Own("StochasticRound", "", Attrs{A("seed", u.seedOf(state))}, v, u.step)
}

// seedOf is the seed of a state's draws, which looks unlike those of others.
func (u *updater) seedOf(state string) int64 {
	hash := sha256.Sum256(fmt.Appendf(nil, "%d rounds %s", u.Seed, state))
	return int64(binary.LittleEndian.Uint64(hash[:]))
}
