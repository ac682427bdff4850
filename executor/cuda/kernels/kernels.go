// Package kernels has the kernels of executor/cuda: their sources in CUDA C, and clang's output. A
// module is one .cu file; go generate compiles all of them.
package kernels

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:generate go run ./compile

// Sources are the kernels in CUDA C with their headers.
//
//go:embed *.cu *.h
var Sources embed.FS

// Flags are clang's options for compiling a kernel to PTX, besides file names: without a toolkit,
// for every device from compute capability 7.0 on. Products and sums are not fused unless a kernel
// says so: they round as on the host, and in every kernel alike.
var Flags = strings.Fields("-x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_70 -Xclang " +
	"-target-feature -Xclang +ptx63 -std=c++17 -O3 -ffp-contract=off -Wall -Wextra -Werror -S")

// Modules lists the modules by name.
func Modules() []string {
	files, err := fs.Glob(Sources, "*.cu")
	if err != nil {
		panic(err) // of a malformed pattern
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".cu")
	}
	slices.Sort(files)
	return files
}
