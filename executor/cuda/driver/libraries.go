package driver

import (
	"os"
	"path/filepath"
)

// searched lists where a library of NVIDIA's may be: where the dynamic linker finds it, in a toolkit, and in pip's packages, whose
// folders below site-packages are given.
func searched(file string, folders ...string) []string {
	names := []string{file}
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if home != "" {
			names = append(names, filepath.Join(home, "lib64", file), filepath.Join(home, "lib", file))
		}
	}
	for _, root := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), filepath.Join(os.Getenv("HOME"), ".local"), "/usr/local", "/usr"} {
		if root == "" {
			continue
		}
		for _, folder := range folders {
			found, _ := filepath.Glob(filepath.Join(root, "lib", "python3*", "*-packages", folder, file))
			names = append(names, found...)
		}
	}
	return names
}
