package envelope

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/symbolic"
)

// TestWorkEnds: proofs about nested sizes, as exporters write for broadcasts and reshapes of several symbols, take no
// more than is allowed, and the answer still holds all loads that may be the largest.
func TestWorkEnds(t *testing.T) {
	box := Box{{"a", 1, 4096}, {"b", 1, 4096}, {"c", 1, 4096}, {"d", 1, 4096}}
	rows := []string{"Max(c, floor(c*Max(a, b)/b))",
		"Max(c, floor(c*Max(a, b)/b), floor(Max(a, b)*Max(c, floor(c*Max(a, b)/b))/b))"}
	const steps, allowed = 400, 200_000
	loads := make([]Load, steps)
	for i := range loads {
		text := fmt.Sprintf("%d*a*d + %d*Max(a, b)*Max(d, floor(a*d/b)) + %d*Max(a, b)*%s + %d",
			7*i%13+1, 5*i%11+1, i%19+1, rows[i%2], i%17)
		loads[i].Bytes = symbolic.MustParse(text)
	}
	// base is for evaluations and intervals, which every load needs; one proof more may be under way at the end.
	base, enough := int64(0), int64(4_000_000)
	for _, units := range []int64{0, allowed, enough} {
		work := NewWork(units)
		r := newRegion(box, work)
		kept := worst(r, loads)
		switch spent := units - work.left; units {
		case 0:
			base = spent
		case allowed:
			require.Less(t, spent, base+2*allowed)
		case enough:
			require.Greater(t, spent, base+10*allowed)
		}
		for _, env := range r.probes() {
			largest := func(list []Load) (most int64) {
				for _, l := range list {
					n, err := l.Bytes.Eval(env)
					require.NoError(t, err)
					most = max(most, n)
				}
				return most
			}
			require.Equal(t, largest(loads), largest(kept), "%v with %d units", env, units)
		}
	}
}
