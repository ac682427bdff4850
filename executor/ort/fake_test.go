//go:build linux && (amd64 || arm64) && !nodl

package ort_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/ort"
)

// fakeLibrary compiles a library that says that it is a release of ONNX Runtime and asks for its
// table of functions with the given C statement, or skips.
func fakeLibrary(t *testing.T, release, getAPI string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("a library that only claims to be ONNX Runtime needs a C compiler, cc, which is missing: apt-get " +
			"install gcc")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libonnxruntime.so")
	text := fmt.Sprintf(`#include <stdlib.h>
static const void *api(unsigned version) { (void)version; %s }
static const char *release(void) { return %q; }
static struct { const void *(*api)(unsigned); const char *(*release)(void); } base = { api, release };
const void *OrtGetApiBase(void) { return &base; }
`, getAPI, release)
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library
}

// TestOldRelease prints the version of a library that is too old.
func TestOldRelease(t *testing.T) {
	for release, says := range map[string]string{
		"1.17.3": "is ONNX Runtime 1.17.3: wanted 1.23 or later",
		"1.23.0": "is ONNX Runtime 1.23.0, which does not offer version 23 of its C API",
		"":       "is ONNX Runtime : wanted 1.23 or later",
	} {
		library := fakeLibrary(t, release, "return NULL;")
		_, err := ort.Start(t.Context(), program(t, "serve", ort.LibraryVariable+"="+library))
		var missing *ort.MissingError
		require.ErrorAs(t, err, &missing)
		require.ErrorContains(t, err, library+" "+says)
		_, err = ort.Start(t.Context(), program(t, "serve", ort.LibraryVariable+"="+filepath.Dir(library)))
		require.ErrorContains(t, err, library+" "+says, "found in its folder")
	}
}

// TestFaultInLibrary outlives a library that crashes.
func TestFaultInLibrary(t *testing.T) {
	for statement, says := range map[string]string{"return *(void **)8;": "SIGSEGV", "abort();": "SIGABRT",
		"exit(3);": "exit status 3"} {
		library := fakeLibrary(t, "1.30.0", statement)
		_, err := ort.Start(t.Context(), program(t, "serve", ort.LibraryVariable+"="+library))
		var crash *ort.CrashError
		require.ErrorAs(t, err, &crash)
		require.ErrorContains(t, err, "while it loaded the library: ")
		require.ErrorContains(t, err, says)
	}
}
