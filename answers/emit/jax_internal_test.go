package emit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFew: all settings are tried up to 1,024 of them.
func TestFew(t *testing.T) {
	few := func(count, fixed int, host int64) bool {
		n := &names{o: &JAXOptions{HostBudget: host}, fixed: map[string]bool{}}
		for i := range count {
			name := fmt.Sprint(i)
			n.list = append(n.list, name)
			n.fixed[name] = i < fixed
		}
		return n.few()
	}
	require.True(t, few(0, 0, 0))
	require.True(t, few(10, 0, 0))
	require.False(t, few(11, 0, 0))
	require.True(t, few(11, 1, 0), "a fixed name is kept")
	require.True(t, few(6, 0, 1))
	require.False(t, few(7, 0, 1))
	require.True(t, few(7, 3, 1), "it may move")
	require.False(t, few(100, 0, 0))
}
