package driver

import (
	"os"
	"os/exec"
	"path/filepath"
)

// searched lists where a library of NVIDIA's may be: where the dynamic linker finds it, in a toolkit, in conda's, and in pip's packages, whose
// folders below site-packages are given.
func searched(file string, folders ...string) []string {
	names := []string{file}
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if home != "" {
			names = append(names, filepath.Join(home, "lib64", file), filepath.Join(home, "lib", file))
		}
	}
	if conda := os.Getenv("CONDA_PREFIX"); conda != "" {
		names = append(names, filepath.Join(conda, "lib", file))
	}
	for _, root := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), pythonRoot(), filepath.Join(os.Getenv("HOME"), ".local"), "/usr/local", "/usr"} {
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

// pythonRoot returns the folder of the environment whose Python a shell would start: images of containers often set nothing but PATH.
func pythonRoot() string {
	path, err := exec.LookPath("python3")
	if err != nil {
		return ""
	}
	return filepath.Dir(filepath.Dir(path))
}
