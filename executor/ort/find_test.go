package ort

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewEnough(t *testing.T) {
	for release, want := range map[string]bool{"1.30.0": true, "1.23.0": true, "1.22.9": false, "2.0.0": true,
		"0.30": false, "": false, "1": false, "one.two": false, "1.24.1-dev": true} {
		require.Equal(t, want, newEnough(release), "%q", release)
	}
}

// TestCandidates lists where the library is looked for, and in which order.
func TestCandidates(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the test needs Linux on x86-64: it has the name of that system's folder in npm's package")
	}
	dir := t.TempDir()
	place := func(path ...string) string {
		name := filepath.Join(append([]string{dir}, path...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		return name
	}
	node := place("node", "node_modules", "onnxruntime-node", "bin", "napi-v6", "linux", "x64", "libonnxruntime.so.1")
	place("node", "node_modules", "onnxruntime-node", "bin", "napi-v6", "linux", "x64",
		"libonnxruntime_providers_shared.so")
	pip := place("venv", "lib", "python3.12", "site-packages", "onnxruntime", "capi", "libonnxruntime.so.1.24.0")
	env := map[string]string{"ORT_NODE_DIR": filepath.Join(dir, "node"), "VIRTUAL_ENV": filepath.Join(dir, "venv")}
	lookup := func(name string) string { return env[name] }
	t.Chdir(filepath.Dir(dir))
	list := Candidates(lookup)
	require.Equal(t, []string{node, "libonnxruntime.so.1", "libonnxruntime.so"}, list[:3])
	require.Contains(t, list, pip)
	t.Chdir(filepath.Join(dir, "node"))
	delete(env, "ORT_NODE_DIR")
	require.NotContains(t, Candidates(lookup), node, "anybody may have put it below the working directory")
	env[LibraryVariable] = "/somewhere/lib.so"
	require.Equal(t, []string{"/somewhere/lib.so"}, Candidates(lookup))
	env[LibraryVariable] = filepath.Dir(pip)
	require.Equal(t, []string{pip}, Candidates(lookup))
}
