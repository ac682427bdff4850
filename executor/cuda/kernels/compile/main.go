// Compile makes PTX of the kernels in the folder above, an archive of all modules and its manifest:
// go generate ./executor/cuda/kernels. MEMOPT_CLANG names the compiler; without it that is
// clang-14.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"memopt/executor/cuda/kernels"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

func run() error {
	clang := cmp.Or(os.Getenv("MEMOPT_CLANG"), "clang-14")
	version, err := exec.Command(clang, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s: %w (MEMOPT_CLANG may name another)", clang, err)
	}
	names, ptx := kernels.Modules(), map[string][]byte{}
	for _, module := range names {
		cmd := exec.Command(clang, append(append([]string{}, kernels.Flags...), module+".cu", "-o", "-")...)
		cmd.Stderr = os.Stderr
		if ptx[module], err = cmd.Output(); err != nil {
			return fmt.Errorf("%s.cu: %w", module, err)
		}
	}
	var archive bytes.Buffer
	if err := kernels.WriteArchive(&archive, names, ptx); err != nil {
		return err
	}
	if err := os.WriteFile("ptx.zip", archive.Bytes(), 0o666); err != nil {
		return err
	}
	compiler, _, _ := strings.Cut(string(version), "\n")
	return os.WriteFile("ptx.sha256", []byte(kernels.Manifest(compiler, names, ptx)), 0o666)
}
