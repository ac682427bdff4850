package memopt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutside builds and runs a program of another module, which takes memopt from this folder.
// What memopt imports is in the module cache that this test was built from, so no network is
// needed; with the flags of this test, packages are those that it was built from.
func TestOutside(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/outside")))
	sums, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644))
	module := "module example.com/outside\n\ngo 1.26\n\n" +
		"require memopt v0.0.0\n\nreplace memopt => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o644))
	build := exec.Command("go", "build", "-o", "outside", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	program := exec.Command(filepath.Join(dir, "outside"))
	program.Dir = dir
	out, err = program.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^equal: true clones: [1-9]\d*\n$`, string(out))
	require.FileExists(t, filepath.Join(dir, "out.onnx"))
}
