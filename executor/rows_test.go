package executor

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestRowsAreKept: rows of every size come out as they went in, in order, and all blocks go back.
func TestRowsAreKept(t *testing.T) {
	blocks := NewArena(SameAsRequested, 0)
	defer blocks.Close()
	s := &share{arena: blocks}
	for _, size := range []int{0, 1, 3, 255, 256, 257, 2048, 2049, 4096, 4097, 10000} {
		for _, n := range []int{0, 1, 2, 5, 300} {
			var r rows
			row := make([]byte, size)
			for i := range n {
				for j := range row {
					row[j] = byte(i + 7*j)
				}
				tensor := Tensor{DType: graph.Uint8, Shape: []int{size}, Data: row}
				require.NoError(t, r.add(s, &tensor))
			}
			require.Equal(t, n, r.n)
			// What is taken and unused is less than the rows, or less than one block.
			require.LessOrEqual(t, s.inUse, 2*int64(n*blockSize(size)))
			require.LessOrEqual(t, s.inUse, int64(n*blockSize(size)+2*rowBlock))
			next := 0
			r.each(func(i int, data []byte) {
				require.Equal(t, next, i)
				require.Len(t, data, size)
				for j, b := range data {
					if b != byte(i+7*j) {
						t.Fatalf("size %d: byte %d of row %d of %d is %d", size, j, i, n, b)
					}
				}
				next++
			})
			if size > 0 {
				require.Equal(t, n, next)
			}
			r.release(s)
			require.Zero(t, r.n)
			require.Zero(t, s.inUse)
		}
	}
}

// TestRowsOfAnotherShape: all rows are alike, also those that hold nothing.
func TestRowsOfAnotherShape(t *testing.T) {
	var r rows
	require.NoError(t, r.add(nil, &Tensor{DType: graph.Float32, Shape: []int{0, 2}}))
	err := r.add(nil, &Tensor{DType: graph.Float32, Shape: []int{0, 3}})
	require.ErrorContains(t, err, "is float[0,3] in iteration 1 and float[0,2] before")
}

// TestRowsTakeLittleBeside: what Go keeps for rows, in what holds them and in the arena, is small
// beside their contents, however small they are.
func TestRowsTakeLittleBeside(t *testing.T) {
	for _, size := range []int{0, 1, 8, 200} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			blocks := NewArena(NextPowerOfTwo, 0)
			defer blocks.Close()
			s := &share{arena: blocks}
			tensor := Tensor{DType: graph.Uint8, Shape: []int{size}, Data: make([]byte, size)}
			n := 4 << 20 / max(size, 1)
			var r rows
			before := liveHeap()
			for range n {
				if err := r.add(s, &tensor); err != nil {
					t.Fatal(err)
				}
			}
			kept := liveHeap() - before
			require.Less(t, kept, int64(n*size/8+64<<10))
			r.release(s)
		})
	}
}

// liveHeap is how many bytes of Go's heap are in use.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
