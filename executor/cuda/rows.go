package cuda

import (
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
	"memopt/graph"
)

// rowHeld is HELD of kernels/rows.h: the elements of a row that a thread keeps.
const rowHeld = 8

// teamThreads is TEAM_THREADS of kernels/bounds.h. With more threads in a block, each could have no
// more than 64 registers, and the kernels of normalizations take up to 104.
const teamThreads = 512

// teams runs a kernel of rows.h on rows of n elements: a warp for each where that can hold it, else
// a block that can, else one that goes over the row several times.
func (l *launch) teams(rows, n int) error {
	if rows == 0 {
		return nil
	}
	const warp = 32
	if n <= warp*rowHeld {
		perBlock := 4
		s := driver.Line(min((rows+perBlock-1)/perBlock, 1<<20), warp)
		s.Block[1] = uint32(perBlock)
		return l.run(s)
	}
	threads := teamThreads
	if n <= teamThreads*rowHeld {
		threads = ((n+rowHeld-1)/rowHeld + warp - 1) / warp * warp
	}
	return l.rows(rows, threads, 0)
}

// packWidth is the number of elements of a type that kernels read at once, vector::width of
// kernels/memopt.h.
func packWidth(t graph.DType) int {
	if size := t.Bits() / 8; size > 4 {
		return 16 / size
	}
	return 4
}

// wide is 1 where rows of n elements all begin at a multiple of a pack, else 0: operands begin at a
// multiple of 64 bytes. For example, rows of 10 float32 are not wide.
func wide(t graph.DType, n int) uint32 {
	if n%packWidth(t) == 0 {
		return 1
	}
	return 0
}

// elements multiplies dims.
func elements(dims []int) int { return operand.Product(dims) }

// tiles runs one block of a warp times so many rows of threads for each of n pieces of work.
func (l *launch) tiles(n, rows int) error {
	if n == 0 {
		return nil
	}
	s := driver.Line(min(n, 1<<20), 32)
	s.Block[1] = uint32(rows)
	return l.run(s)
}
