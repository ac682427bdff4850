package simd

import "golang.org/x/sys/cpu"

//go:generate go run -C asm . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg simd -other ../kernels_other.go

// useAVX2 reports whether the assembly is used; a processor with AVX2 has F16C, the
// conversions of float16, too. Tests change it.
var useAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasF16C
