package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/ort"
)

// planted are the libraries that memopt looks for, by the names that it looks for.
var planted = []string{"libonnxruntime.so", "libonnxruntime.so.1", "libonnxruntime.so.1.30.0", "libopenblas.so.0",
	"libopenblas.so", "libdnnl.so.2", "libcuda.so.1", "libcuda.so",
	"libcublas.so.11", "libcublas.so.12", "libcublas.so.13", "libcublasLt.so.12", "libcudnn.so.8", "libcudnn.so.9",
	"libnvidia-ml.so.1"}

// plant compiles a library whose constructor leaves a file, and puts it below a folder by all those
// names, wherever packages keep them.
func plant(t *testing.T, dir, mark string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("a planted library needs a C compiler, cc, which is missing: apt-get install gcc")
	}
	build := t.TempDir()
	source, library := filepath.Join(build, "planted.c"), filepath.Join(build, "planted.so")
	require.NoError(t, os.WriteFile(source,
		[]byte("#include <stdio.h>\n__attribute__((constructor)) static void ran(void) { FILE *f = fopen(\""+mark+
			"\", \"w\"); if (f) fclose(f); }\n"), 0o600))
	out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	for _, folder := range []string{".", "lib", "lib64", "bin", "node_modules/onnxruntime-node/bin/napi-v6/linux/" +
		arch, "onnxruntime/capi"} {
		plantIn(t, library, filepath.Join(dir, folder))
	}
	for _, root := range []string{".", ".local", "local", "venv"} {
		for _, packages := range []string{"python3.11/site-packages", "python3/dist-packages"} {
			for _, folder := range []string{"onnxruntime/capi", "nvidia/cublas/lib", "nvidia/cudnn/lib",
				"nvidia/cu12/lib", "nvidia/cu13/lib"} {
				plantIn(t, library, filepath.Join(dir, root, "lib", packages, folder))
			}
		}
	}
	return library
}

func plantIn(t *testing.T, library, folder string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, name := range planted {
		if _, err := os.Lstat(filepath.Join(folder, name)); err != nil {
			require.NoError(t, os.Symlink(library, filepath.Join(folder, name)))
		}
	}
}

// TestPlantedLibraries: no code runs of libraries in the working folder, in those above it and in
// that of temporary files, nor of those in packages of which a relative path, an unset HOME or a
// folder that any user can write to would make a place to look.
func TestPlantedLibraries(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test needs Linux, whose dynamic linker it is about: run it there")
	}
	top := t.TempDir()
	work, open, mark := filepath.Join(top, "above", "work"), filepath.Join(top, "open"), filepath.Join(top, "mark")
	require.NoError(t, os.MkdirAll(work, 0o755))
	require.NoError(t, os.MkdirAll(open, 0o755))
	library := plant(t, work, mark)
	plant(t, filepath.Dir(work), mark)
	plant(t, open, mark)
	require.NoError(t, os.Chmod(open, 0o777))
	require.NoError(t, writeForward(work))
	self, err := os.Executable()
	require.NoError(t, err)
	kept := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"HOME", "ORT_NODE_DIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX",
			"CUDA_HOME", "CUDA_PATH", "TMPDIR", ort.LibraryVariable}, name)
	})
	run := func(backend string, env ...string) string {
		cmd := exec.Command(self)
		cmd.Args = []string{"memopt", "run", "forward.onnx", "--init", "random:1", "--dim", "batch=4", "-e",
			backend, "-v"}
		cmd.Dir, cmd.Env = work, append(slices.Clone(kept), env...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		_ = cmd.Run() // where there is no library at all, that is an error
		return errs.String()
	}
	for _, backend := range []string{"cpu", "ort", "cuda"} {
		for _, env := range [][]string{
			{"TMPDIR=" + work},
			{"HOME=" + work + "/missing", "VIRTUAL_ENV=venv", "CONDA_PREFIX=.", "CUDA_HOME=.", "CUDA_PATH=../work"},
			{"HOME=" + open, "VIRTUAL_ENV=" + open + "/venv", "CONDA_PREFIX=" + open, "CUDA_HOME=" + open},
			{"HOME=", "PATH=.:" + os.Getenv("PATH")},
		} {
			text := run(backend, env...)
			require.NoFileExists(t, mark, "-e %s with %q\n%s", backend, env, text)
		}
	}
	// What a variable names is opened, and that anybody could have put it there is said.
	run("ort", ort.LibraryVariable+"="+filepath.Join(work, "libonnxruntime.so"))
	require.FileExists(t, mark)
	require.NoError(t, os.Remove(mark))
	run("cpu", "MEMOPT_OPENBLAS="+library)
	require.FileExists(t, mark)
}

// TestLibrariesAreTold: which file a library was opened from is said with -v, and whether somebody
// else could have put it there.
func TestLibrariesAreTold(t *testing.T) {
	path := findORT(t)
	if path == "" {
		t.Skip("the test needs ONNX Runtime: .ci/install installs it")
	}
	dir := t.TempDir()
	require.NoError(t, writeForward(dir))
	line := "run " + filepath.Join(dir, "forward.onnx") + " --init random:1 --dim batch=4 -e ort"
	got := inProcess(t.Context(), nil, line+" -v")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.errors, "ONNX Runtime was opened from "+path+"\n")
	got = inProcess(t.Context(), nil, line+" -O json")
	require.Contains(t, got.out, `"path": "`+path+`"`)

	open := filepath.Join(dir, "open")
	require.NoError(t, os.Mkdir(open, 0o755))
	require.NoError(t, os.Chmod(open, 0o777))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	copied := filepath.Join(open, "libonnxruntime.so.1")
	require.NoError(t, os.WriteFile(copied, data, 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Args = append([]string{"memopt"}, strings.Fields(line)...)
	cmd.Env = append(os.Environ(), ort.LibraryVariable+"="+copied)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	require.NoError(t, cmd.Run(), "%s", &errs)
	require.Contains(t, errs.String(), "warning: ONNX Runtime was opened from "+copied+": any user can write to "+open+
		", so anything put there runs with this program's rights\n")
}
