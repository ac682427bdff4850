package simd

import "golang.org/x/sys/cpu"

//go:generate go run -C asm . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg simd -other ../kernels_other.go

// These report which assembly is used. A processor with AVX2 has F16C, the conversions of
// float16, too. AVX-512 serves the functions that are computed, where it is faster; loops
// that wait for memory have AVX2 only. Tests change them.
var (
	useAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasF16C
	useAVX512 = useAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2
)
