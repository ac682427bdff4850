package driver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"memopt/internal/library"
)

// searched lists where a library of NVIDIA's may be: where the dynamic linker finds it, in a
// toolkit, in conda's, and in pip's packages, whose folders below site-packages are given. Places
// that any user can write to are left out, and so is the working folder.
func searched(file string, folders ...string) []string {
	var names []string
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if home != "" {
			names = append(names, filepath.Join(home, "lib64", file), filepath.Join(home, "lib", file))
		}
	}
	if conda := os.Getenv("CONDA_PREFIX"); conda != "" {
		names = append(names, filepath.Join(conda, "lib", file))
	}
	for _, root := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), pythonRoot(),
		filepath.Join(os.Getenv("HOME"), ".local"), "/usr/local", "/usr"} {
		if root == "" {
			continue
		}
		for _, folder := range folders {
			found, _ := filepath.Glob(filepath.Join(root, "lib", "python3*", "*-packages", folder, file))
			names = append(names, found...)
		}
	}
	return append([]string{file}, library.Searched(names)...)
}

// pythonRoot returns the folder of the environment whose Python a shell would start: images of
// containers often set only PATH.
func pythonRoot() string {
	path, err := exec.LookPath("python3")
	if err != nil {
		return ""
	}
	return filepath.Dir(filepath.Dir(path))
}

// openWithParts opens the first of the named libraries that is there. Where a name is a path, the
// parts that lie beside it, of the same version, are opened before, in their order: libraries ask
// the linker for their parts by bare names, which it finds when they are open already, and cuDNN
// ends the process if one cannot be found.
func openWithParts(names []string, parts ...string) (uintptr, error) {
	var all []error
	for _, name := range names {
		_, version, _ := strings.Cut(filepath.Base(name), ".so")
		if _, err := os.Stat(name); err == nil && filepath.IsAbs(name) {
			for _, part := range parts {
				// Each version has parts of its own.
				_, _ = openLibrary([]string{filepath.Join(filepath.Dir(name), part+".so"+version)})
			}
		}
		lib, err := openLibrary([]string{name})
		if err == nil {
			return lib, nil
		}
		all = append(all, err)
	}
	return 0, errors.Join(all...)
}
