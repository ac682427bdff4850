package executor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPopulate brings zeroed memory that no step has touched into the process, at any place, and changes none of it.
// Half of it is enough to see, as the system may take other memory of the process away meanwhile.
func TestPopulate(t *testing.T) {
	before := SettleProcessMemory().Resident
	if before == 0 {
		t.Skip("/proc/self/status is missing: the test needs Linux, which says there how much memory is resident")
	}
	const n, least = 64 << 20, 32 << 20
	data := make([]byte, n)
	populate(data)
	require.Greater(t, ReadProcessMemory().Resident-before, int64(least))
	for size := range 12 {
		for from := range 9 {
			some := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
			populate(some[from : from+size])
			require.Equal(t, byte(20), some[19])
			for i, b := range some {
				require.Equal(t, byte(i+1), b)
			}
		}
	}
	require.Zero(t, data[n-1])
}
