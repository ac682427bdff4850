//go:build linux && (amd64 || arm64) && !nodl

package double

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"memopt/executor/cuda/kernels"
)

// library is a module of kernels compiled for the host, and the declarations in the PTX of the same kernels.
type library struct {
	name    string
	handle  uintptr
	entries map[string]kernels.Entry
}

var (
	loading sync.Mutex
	loaded  = map[string]*library{}
)

// load compiles a module, opens it and reads its PTX, once in a process: tests open a device for each case.
func load(name string) (*library, error) {
	loading.Lock()
	defer loading.Unlock()
	if l := loaded[name]; l != nil {
		return l, nil
	}
	path, err := compile(name)
	if err != nil {
		return nil, fmt.Errorf("compiling the kernels of %s for the host: %w", name, err)
	}
	entries, err := kernels.Entries(name)
	if err != nil {
		return nil, err
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	loaded[name] = &library{name, handle, entries}
	return loaded[name], nil
}

// function returns a function that runs a kernel.
func (l *library) function(name string) (func(*launch), error) {
	fn, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return nil, fmt.Errorf("module %s has no kernel %s", l.name, name)
	}
	return func(c *launch) { cgocall(fn, unsafe.Pointer(c)) }, nil
}

// cgocall runs a C function of one argument on a thread's own stack. purego.SyscallN allocates.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// hostFlags compile a kernel for the host. -O1: kernels run only briefly, while compilers take
// longer at higher levels.
var hostFlags = []string{"-x", "c++", "-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared",
	"-fvisibility=hidden", "-DMEMOPT_HOST"}

// ErrNoCompiler says that kernels cannot be compiled for the host.
var ErrNoCompiler = errors.New("no C++ compiler: clang-14, clang++ or g++ is wanted (apt-get install g++)")

// Compiler returns the name of the C++ compiler: MEMOPT_CXX, or the first that is there.
func Compiler() (string, error) {
	for _, name := range []string{os.Getenv("MEMOPT_CXX"), "clang-14", "g++", "clang++", "clang-19"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoCompiler
}

// compile returns the path of a module's library. Libraries are kept under names that identify
// sources and compiler.
func compile(name string) (string, error) {
	cc, err := Compiler()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, cc, hostFlags)
	files, err := fs.Glob(kernels.Sources, "*.h")
	if err != nil {
		return "", err
	}
	files = append(files, name+".cu")
	base, err := os.UserCacheDir()
	base = filepath.Join(cmp.Or(base, os.TempDir()), "memopt-kernels")
	if err != nil {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("memopt-kernels-%d", os.Getuid()))
	}
	contents := map[string][]byte{}
	for _, f := range files {
		data, err := kernels.Sources.ReadFile(f)
		if err != nil {
			return "", fmt.Errorf("there is no module of kernels named %q", name)
		}
		fmt.Fprintln(sum, f, len(data))
		sum.Write(data)
		contents[f] = data
	}
	path := filepath.Join(base, fmt.Sprintf("%s-%x.so", name, sum.Sum(nil)[:12]))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	return path, build(cc, name, path, contents)
}

// build compiles in a folder of its own and moves the result to path.
func build(cc, name, path string, contents map[string][]byte) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), "build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for f, data := range contents {
		if err := os.WriteFile(filepath.Join(dir, f), data, 0o600); err != nil {
			return err
		}
	}
	cmd := exec.Command(cc, append(append([]string{}, hostFlags...), name+".cu", "-o", "out.so", "-lm")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cc, err, bytes.TrimSpace(out))
	}
	return os.Rename(filepath.Join(dir, "out.so"), path)
}

// reserve returns addresses with no memory behind them, so that touching them faults.
func reserve(n int) (uintptr, error) {
	const page = 4096
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n+2*page-1)/page*page, unix.PROT_NONE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	return uintptr(p), err
}

// release gives addresses back.
func release(address uintptr, n int) {
	const page = 4096
	unix.MunmapPtr(*(*unsafe.Pointer)(unsafe.Pointer(&address)), uintptr(n+2*page-1)/page*page)
}
