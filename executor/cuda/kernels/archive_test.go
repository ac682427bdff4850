package kernels_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/cuda/kernels"
)

// TestManifest: the manifest that reviewers read lists the whole contents of the archive, and the sources that it was
// made of: these.
func TestManifest(t *testing.T) {
	ptx := map[string][]byte{}
	for _, module := range kernels.Modules() {
		image, err := kernels.PTX(module)
		require.NoError(t, err)
		ptx[module] = image
	}
	want, err := os.ReadFile("ptx.sha256")
	require.NoError(t, err)
	require.Equal(t, string(want), kernels.Manifest(kernels.Compiler(), kernels.Modules(), ptx),
		"go generate ./executor/cuda/kernels")
}

// TestArchiveIsDeterministic: nothing but names and contents goes into an archive.
func TestArchiveIsDeterministic(t *testing.T) {
	names, ptx := []string{"a", "b"}, map[string][]byte{"a": []byte("one"), "b": bytes.Repeat([]byte("two"), 1000)}
	var first, second bytes.Buffer
	require.NoError(t, kernels.WriteArchive(&first, names, ptx))
	require.NoError(t, kernels.WriteArchive(&second, names, ptx))
	require.Equal(t, first.Bytes(), second.Bytes())

	_, err := kernels.PTX("conv_f64") // of a family that there is
	require.ErrorContains(t, err, `no module of kernels named "conv_f64"`)
	_, err = kernels.PTX("nothing")
	require.ErrorContains(t, err, `no module of kernels named "nothing"`)
}
