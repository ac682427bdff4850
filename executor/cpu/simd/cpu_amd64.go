package simd

import "golang.org/x/sys/cpu"

//go:generate go run -C asm . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg simd -other ../kernels_other.go

// useAVX2 reports whether the assembly is used. Tests change it.
var useAVX2 = cpu.X86.HasAVX2
