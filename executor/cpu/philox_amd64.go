package cpu

import "golang.org/x/sys/cpu"

// philoxWide reports whether philoxBlocks can be used. Tests change it.
var philoxWide = cpu.X86.HasAVX2

// philoxBlocks computes 8*n blocks from the counter (first, step, stream) on. It is
// written in assembly with AVX2; the words are those of philox.
//
//go:noescape
func philoxBlocks(dst *uint32, n int, first uint64, s *philoxStream)
