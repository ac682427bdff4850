package fit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoubts: a size of which it is not proved that all below it fit is named, and no other one.
func TestDoubts(t *testing.T) {
	r := &Result{Options: Options{Vary: []string{"N"}}, Sizes: &Sizes{}}
	by := &r.Sizes.By
	by[Plain] = Size{Value: 9, Least: 1, Proved: true}
	by[Level1] = Size{Value: 9, Least: 1}
	by[Best] = Size{Value: 1, Least: 1} // it is the least size
	require.Equal(t, []string{"It is not proved that every smaller N fits " + titles[Level1] + "."}, r.doubts())
	by[Level1].Proved = true
	require.Empty(t, r.doubts())
}
