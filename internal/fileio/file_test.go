//go:build unix

package fileio

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(data)
	}
	return out
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Mode()
}

// TestPermissions: a new file has what the umask leaves, an older one keeps its own, and until it
// has its name nobody else can read it. Links are replaced, and what they led to stays.
func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	plain := write(t, dir, "plain", "")
	out := filepath.Join(dir, "out")
	end := Observe(func(op, path string) {
		if op == "change" {
			require.Equal(t, os.FileMode(0o600), mode(t, path))
			require.True(t, strings.HasPrefix(filepath.Base(path), ".memopt-"), path)
		}
	})
	defer end()
	require.NoError(t, WriteFile(out, []byte("first")))
	require.Equal(t, mode(t, plain), mode(t, out))
	for _, perm := range []os.FileMode{0o600, 0o640, 0o444, 0o755} {
		require.NoError(t, os.Chmod(out, perm))
		require.NoError(t, WriteFile(out, []byte("second")))
		require.Equal(t, perm, mode(t, out))
	}
	require.NoError(t, os.Chmod(plain, 0o600))
	link, dangling, hard := filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(dir, "hard")
	require.NoError(t, os.Symlink("plain", link))
	require.NoError(t, os.Symlink("nowhere", dangling))
	require.NoError(t, os.Link(plain, hard))
	for _, path := range []string{link, dangling, hard} {
		require.NoError(t, WriteFile(path, []byte(path)))
		require.Equal(t, map[bool]os.FileMode{true: 0o600, false: 0o666 &^ umask()}[path == hard], mode(t, path))
	}
	require.Equal(t, map[string]string{"plain": "", "out": "second", "link": link, "dangling": dangling, "hard": hard},
		contents(t, dir))
}

// TestTemporaryNamesAreExclusive: what somebody has put at the name that a temporary file was to
// have is not written to.
func TestTemporaryNamesAreExclusive(t *testing.T) {
	dir := t.TempDir()
	planted := 0
	end := Observe(func(op, path string) {
		if op != "create" || planted >= 3 {
			return
		}
		planted++
		require.NoError(t, os.Symlink("/dev/full", path))
	})
	defer end()
	out := filepath.Join(dir, "out")
	require.NoError(t, WriteFile(out, []byte("text")))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	require.Equal(t, 3, planted)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1+planted, "the links are somebody else's")
}

// TestUmask: the umask is that of the process, which it keeps.
func TestUmask(t *testing.T) {
	dir := t.TempDir()
	if os.Getenv(childVariable) != "" {
		child(t)
		return
	}
	for _, mask := range []string{"022", "077", "002", "000"} {
		out := filepath.Join(dir, mask)
		cmd := exec.Command("/bin/sh", "-c", "umask "+mask+"; exec \"$0\" -test.run='^TestUmask$'", os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"=write", "MEMOPT_TEST_OUT="+out)
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", text)
		want := map[string]os.FileMode{"022": 0o644, "077": 0o600, "002": 0o664, "000": 0o666}[mask]
		require.Equal(t, want, mode(t, out))
	}
}

// childVariable says what the test program does in a second process.
const childVariable = "MEMOPT_TEST_CHILD"

// child does what childVariable says, with the file that MEMOPT_TEST_OUT names.
func child(t *testing.T) {
	out := os.Getenv("MEMOPT_TEST_OUT")
	switch what := os.Getenv(childVariable); what {
	case "write":
		require.NoError(t, WriteFile(out, []byte("text")))
	case "limited": // as on a disk that is full, or of a user who may use no more of it
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 16, Max: 1 << 16}))
		err := WriteFile(out, make([]byte, 1<<20))
		require.EqualError(t, err, "cannot write "+out+": file too large")
		require.ErrorIs(t, err, syscall.EFBIG)
		p := pair(out, "new", 1<<20)
		require.ErrorIs(t, p.Write(), syscall.EFBIG)
	case "denied":
		require.Error(t, WriteFile(out, nil))
	case "owner":
		require.ErrorIs(t, WriteFile(out, nil), errOwner)
	default:
		t.Fatalf("no such child: %q", what)
	}
}

// start runs a test of this program in a second process.
func start(t *testing.T, what, out string, change func(*exec.Cmd)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childVariable+"="+what, "MEMOPT_TEST_OUT="+out)
	change(cmd)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Contains(t, string(text), "PASS")
}

// TestFullDisk: where a file may not grow, the error names the output, the old one stays, and
// nothing else is left.
func TestFullDisk(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		child(t)
		return
	}
	dir := t.TempDir()
	for _, old := range []map[string]string{{}, {"out": "old"}, {"out": "old out.data", "out.data": "old data"}} {
		for name, text := range old {
			write(t, dir, name, text)
		}
		start(t, "limited", filepath.Join(dir, "out"), func(*exec.Cmd) {})
		require.Equal(t, old, contents(t, dir))
	}
	if _, err := os.Stat("/dev/full"); runtime.GOOS == "linux" {
		require.NoError(t, err)
		require.EqualError(t, WriteFile("/dev/full", []byte("x")), "cannot write /dev/full: no space left on device")
	}
}

// TestFolderThatCannotBeWritten, as somebody who may not, and who may not give files away.
func TestFolderThatCannotBeWritten(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		child(t)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else, as the test does: run it by sudo, or in a container")
	}
	dir, err := os.MkdirTemp("/tmp", "memopt-fileio-test-") // t.TempDir's own folder is closed to others
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "program")
	data, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, data, 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	out := write(t, dir, "out", "old")
	nobody := func(cmd *exec.Cmd) {
		cmd.Path, cmd.Dir = program, "/"
		cmd.Env = append(cmd.Env, "TMPDIR=/tmp", "HOME=/")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	start(t, "denied", out, nobody)
	require.NoError(t, os.Chmod(dir, 0o777))
	start(t, "owner", out, nobody)
	start(t, "write", filepath.Join(dir, "new"), nobody)
	require.NoError(t, WriteFile(filepath.Join(dir, "new"), []byte("by root")))
	info, err := os.Stat(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Equal(t, uint32(65534), info.Sys().(*syscall.Stat_t).Uid)
	got := contents(t, dir)
	delete(got, "program")
	require.Equal(t, map[string]string{"out": "old", "new": "by root"}, got)
}

// TestInPlace: devices, pipes and descriptors are written to, not replaced.
func TestInPlace(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"/dev/null", dir} {
		before := mode(t, path)
		err := WriteFile(path, []byte("x"))
		require.Equal(t, path == dir, err != nil)
		require.Equal(t, before, mode(t, path))
	}
	require.ErrorIs(t, WriteFile(dir, nil), errIsFolder)
	f, err := os.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	defer f.Close()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("/proc/self/fd", link))
	_, err = io.WriteString(f, "said, ")
	require.NoError(t, err)
	number := strconv.Itoa(int(f.Fd()))
	paths := []string{"/dev/fd/" + number}
	if runtime.GOOS == "linux" {
		second := filepath.Join(dir, "second")
		require.NoError(t, os.Symlink(filepath.Join("link", number), second))
		paths = append(paths, "/proc/self/fd/"+number, "/proc/thread-self/fd/"+number,
			filepath.Join(link, number), second)
	}
	want := "said, "
	for _, path := range paths {
		require.False(t, Replaceable(path))
		require.NoError(t, WriteFile(path, []byte("x")), path)
		want += "x"
		data, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		require.Equal(t, want, string(data), path)
	}
	require.Error(t, WriteFile("/dev/fd/12345", nil))
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "no", "such"), nil), os.ErrNotExist)
	require.True(t, Replaceable(f.Name()))
	require.True(t, Replaceable(filepath.Join(dir, "new")))
}

// TestNothingIsLeft: an output that is given up leaves nothing, nor does one that cannot get its
// name; errors of what is copied keep the path that they are about.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	f, err := Create(out)
	require.NoError(t, err)
	_, err = io.WriteString(f, "half")
	require.NoError(t, err)
	f.Discard()
	f.Discard()
	require.Error(t, f.Commit())
	require.Empty(t, contents(t, dir))

	f, err = Create(out)
	require.NoError(t, err)
	source, err := os.Open(dir)
	require.NoError(t, err)
	defer source.Close()
	_, err = f.ReadFrom(source)
	require.Error(t, err)
	require.ErrorContains(t, f.Commit(), "cannot write "+out+": ")
	require.Empty(t, contents(t, dir))

	f, err = Create(out)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(out, 0o777))
	require.ErrorContains(t, f.Commit(), "cannot write "+out)
	require.NoError(t, os.Remove(out))
	require.Empty(t, contents(t, dir))

	require.Panics(t, func() { Write(out, func(io.Writer) error { panic("the file has become shorter") }) })
	p := pair(filepath.Join(dir, "pair"), "new", 0)
	p.WriteMain = func(io.Writer, string) error { panic("the file has become shorter") }
	require.Panics(t, func() { p.Write() })
	require.Empty(t, contents(t, dir))

	f, err = Create(out)
	require.NoError(t, err)
	require.NoError(t, f.Seal())
	require.NoError(t, f.Seal())
	require.NoError(t, f.Commit())
	require.Equal(t, map[string]string{"out": ""}, contents(t, dir))
	require.True(t, errors.Is(WriteFile(filepath.Join(dir, strings.Repeat("x", 300)), nil), syscall.ENAMETOOLONG))
}
