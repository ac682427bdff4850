package ort

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"memopt/internal/library"
)

// LibraryVariable names the environment variable for the library's path.
const LibraryVariable = "MEMOPT_ORT_LIB"

// libraryNames are tried as the dynamic linker finds them.
var libraryNames = []string{"libonnxruntime.so.1", "libonnxruntime.so"}

// Candidates lists where the library may be, in the order of the search: the file that
// MEMOPT_ORT_LIB names, if it is set, and no other; npm's package below ORT_NODE_DIR; the dynamic
// linker's choice; pip's package in the active environment, in the user's folder and in the
// system's.
//
// The working directory and the folders above it are not searched: whoever can write there could
// plant a library, whose code runs as soon as it is opened. Nor are folders that any user can write
// to, unless a variable names them.
func Candidates(env func(string) string) []string {
	if path := env(LibraryVariable); path != "" {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if found := libraries(path); len(found) > 0 {
				return found
			}
		}
		return []string{path}
	}
	var list []string
	if dir := env("ORT_NODE_DIR"); dir != "" {
		list = append(list, nodeLibraries(dir)...)
	}
	list = append(list, libraryNames...)
	for _, root := range pythonRoots(env) {
		for _, pattern := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages",
			"lib/python3/dist-packages", "local/lib/python3*/dist-packages"} {
			list = append(list, library.Searched(libraries(filepath.Join(root, pattern, "onnxruntime", "capi")))...)
		}
	}
	return list
}

func pythonRoots(env func(string) string) []string {
	var roots []string
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := env(name); dir != "" {
			roots = append(roots, dir)
		}
	}
	if home := env("HOME"); home != "" {
		roots = append(roots, filepath.Join(home, ".local"))
	}
	return append(roots, "/usr/local", "/usr")
}

// nodeLibraries lists the libraries in npm's package below a folder.
func nodeLibraries(dir string) []string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return libraries(filepath.Join(dir, "node_modules", "onnxruntime-node", "bin", "napi-v*", runtime.GOOS, arch))
}

// libraries lists the libraries in the folders that match a pattern; newer names before older ones.
// The providers' libraries beside them have other names.
func libraries(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(pattern, "libonnxruntime.so*"))
	if err != nil {
		return nil
	}
	slices.Sort(found)
	slices.Reverse(found)
	return slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(path, ".debug") })
}
