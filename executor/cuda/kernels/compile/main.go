// Compile makes PTX of the kernels in the folder above: go generate ./executor/cuda/kernels. MEMOPT_CLANG names the compiler, else
// clang-14 and clang are tried.
package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	files, err := filepath.Glob("*.cu")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("ptx", 0o777); err != nil {
		return err
	}
	if old, err := filepath.Glob("ptx/*.ptx"); err == nil {
		for _, f := range old {
			os.Remove(f)
		}
	}
	for _, f := range files {
		out := filepath.Join("ptx", strings.TrimSuffix(f, ".cu")+".ptx")
		cmd := exec.Command(clang, append(append([]string{}, kernels.Flags...), f, "-o", out)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	line, _, _ := strings.Cut(string(version), "\n")
	return os.WriteFile("ptx/COMPILER", []byte(line+"\n"), 0o666)
}
