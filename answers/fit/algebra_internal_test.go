package fit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// TestReachIn: the largest size of a piece that is within the limit is that of trying all, where bytes rise
// with the size, fall, or do both.
func TestReachIn(t *testing.T) {
	n := symbolic.Sym("n")
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Int64Range(0, 20).Draw(t, "lo")
		hi := lo + rapid.Int64Range(0, 30).Draw(t, "more")
		slope := rapid.Int64Range(-6, 6).Draw(t, "slope")
		bend := rapid.Int64Range(0, 1).Draw(t, "bend")
		square := n.Sub(symbolic.Const(25)).Mul(n.Sub(symbolic.Const(25)))
		bytes := n.Mul(symbolic.Const(slope)).Add(symbolic.Const(300)).Add(square.Mul(symbolic.Const(bend)))
		stays := n.Mul(symbolic.Const(rapid.Int64Range(0, 2).Draw(t, "stays")))
		f := &finder{symbol: "n", opts: &Options{Limit: rapid.Int64Range(0, 600).Draw(t, "limit")}}
		p := &envelope.Piece{Box: envelope.Box{{Symbol: "n", Lo: lo, Hi: hi}}, Peaks: []envelope.Load{{Bytes: bytes}}}
		want := lo - 1
		for size := lo; size <= hi; size++ {
			if f.within(p, stays, size) {
				want = size
			}
		}
		got, ok := f.reachIn(p, stays)
		require.Equal(t, want, got)
		require.Equal(t, want >= lo, ok)
	})
}
