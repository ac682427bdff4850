package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// mallocSource is where glibc's settings are described.
const mallocSource = "mallopt(3); glibc manual, Memory Allocation Tunables"

// mallocVariables are settings of glibc's allocator, each by its variable and by its tunable.
var mallocVariables = []struct {
	variable, tunable string
	grade             Grade
	effect            string
}{
	{"MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold", Hint,
		"this much freed memory stays with the process at the end of the heap; the limits no " +
			"longer adapt themselves"},
	{"MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold", Hint,
		"larger blocks are mapped, and given back when they are freed: tensors above it cost page " +
			"faults in every step, " +
			"and those below it stay in the heap; the limits no longer adapt themselves"},
	{"MALLOC_TOP_PAD_", "glibc.malloc.top_pad", Hint,
		"the heap grows by so much more than is needed; the limits no longer adapt themselves"},
	{"MALLOC_MMAP_MAX_", "glibc.malloc.mmap_max", Hint,
		"only so many pieces are mapped, others stay in the heap; the limits no longer adapt " +
			"themselves"},
	{"MALLOC_PERTURB_", "glibc.malloc.perturb", Slows, "every piece is filled when it is taken " +
		"and when it is freed"},
	{"MALLOC_CHECK_", "glibc.malloc.check", Slows, "with libc_malloc_debug every piece is checked"},
}

// allocator examines the settings of glibc's malloc, which ONNX Runtime without its arena, PyTorch
// and most other programs take their tensors from. memopt's own arenas lie outside.
func allocator(m *Machine) []Finding {
	tunables := m.tunables()
	var list []Finding
	for _, v := range mallocVariables {
		name, value, ok := m.mallocSetting(tunables, v.variable, v.tunable)
		if !ok {
			continue
		}
		list = append(list, Finding{Grade: v.grade, What: name, Value: value, Effect: v.effect,
			Fix: "unset it, unless " +
				"measured", Source: mallocSource, Try: m.without(name)})
	}
	name, value, ok := m.mallocSetting(tunables, "MALLOC_ARENA_MAX", "glibc.malloc.arena_max")
	if ok {
		return append(list, Finding{Grade: Fine, What: name, Value: value,
			Effect: "threads share so many heaps",
			Source: mallocSource})
	}
	c := m.Cores()
	if n := max(c.Online, c.Allowed); n > 1 && !m.otherAllocator() {
		list = append(list, Finding{Grade: Hint, What: "MALLOC_ARENA_MAX", Value: "not set",
			Effect: fmt.Sprintf("glibc gives threads up to %d heaps of their own (8 for each of "+
				"%d cores), and the others cannot use memory that is freed in one", 8*n, n),
			Fix: "MALLOC_ARENA_MAX=2 where many threads allocate", Source: mallocSource,
			Try: []string{"MALLOC_ARENA_MAX=1", "MALLOC_ARENA_MAX=2"}})
	}
	return list
}

// tunables reads GLIBC_TUNABLES, name=value pairs with colons between them.
func (m *Machine) tunables() map[string]string {
	all := map[string]string{}
	for entry := range strings.SplitSeq(m.value("GLIBC_TUNABLES"), ":") {
		if name, value, ok := strings.Cut(entry, "="); ok {
			all[name] = value
		}
	}
	return all
}

// mallocSetting returns a setting and its name: the tunable counts before the variable.
func (m *Machine) mallocSetting(tunables map[string]string, variable, tunable string) (name,
	value string, ok bool) {
	if value, ok = tunables[tunable]; ok {
		return tunable, value, true
	}
	value, ok = m.set(variable)
	return variable, value, ok
}

// without is the setting to try in place of name: all tunables are set together.
func (m *Machine) without(name string) []string {
	if strings.HasPrefix(name, "glibc.") {
		return []string{"GLIBC_TUNABLES="}
	}
	return []string{name + "="}
}

// Allocators that can be put in malloc's place by LD_PRELOAD.
var (
	allocatorNames = []string{"mimalloc", "jemalloc", "tcmalloc"}
	// allocatorFiles are their names: those with debugging aids and other interfaces are left out.
	allocatorFiles = []string{"libmimalloc.so*", "libjemalloc.so*", "libtcmalloc_minimal.so*",
		"libtcmalloc.so*"}
	libraryFolders = []string{"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64",
		"usr/lib",
		"usr/local/lib", "usr/local/lib64", "opt/homebrew/lib", "home/linuxbrew/.linuxbrew/lib"}
)

// Allocators returns the paths of the allocators that are installed in the usual places, one of each
// kind.
func (m *Machine) Allocators() []string {
	folders := slices.Clone(libraryFolders)
	if conda, ok := m.set("CONDA_PREFIX"); ok {
		folders = append(folders, strings.TrimPrefix(path.Join(conda, "lib"), "/"))
	}
	var list []string
	for _, kind := range allocatorNames {
		if found := m.allocatorFile(kind, folders); found != "" {
			list = append(list, "/"+found)
		}
	}
	return list
}

func (m *Machine) allocatorFile(kind string, folders []string) string {
	for _, folder := range folders {
		for _, pattern := range allocatorFiles {
			if !strings.Contains(pattern, kind) {
				continue
			}
			if found, err := fs.Glob(m.Files, path.Join(folder, pattern)); err == nil &&
				len(found) > 0 {
				return found[0]
			}
		}
	}
	return ""
}

// preloads lists the files of LD_PRELOAD.
func (m *Machine) preloads() []string {
	return strings.FieldsFunc(m.value("LD_PRELOAD"), func(r rune) bool {
		return r == ' ' ||
			r == ':'
	})
}

// otherAllocator reports whether LD_PRELOAD puts another allocator in malloc's place.
func (m *Machine) otherAllocator() bool { return slices.ContainsFunc(m.preloads(), isAllocator) }

func isAllocator(file string) bool {
	return slices.ContainsFunc(allocatorNames,
		func(name string) bool { return strings.Contains(path.Base(file), name) })
}

// preloaded looks at LD_PRELOAD, and at allocators that it could name.
func preloaded(m *Machine) []Finding {
	var list []Finding
	const source = "LD_PRELOAD; ld.so(8)"
	for _, file := range m.preloads() {
		f := Finding{Grade: Hint, What: "LD_PRELOAD", Value: file,
			Effect: "is loaded into every program",
			Fix:    "unset it, unless wanted", Source: source, Try: []string{"LD_PRELOAD="}}
		switch {
		case strings.HasPrefix(file, "/") && !m.has(strings.TrimPrefix(file, "/")):
			f.Effect, f.Fix, f.Try = "there is no such file: every program says so and goes on "+
				"without", "unset it", nil
		case isAllocator(file):
			f.Grade, f.Effect, f.Fix = Fine, "takes malloc's place; memopt's own arenas lie "+
				"outside", ""
		}
		list = append(list, f)
	}
	if m.otherAllocator() {
		return list
	}
	for _, file := range m.Allocators() {
		list = append(list, Finding{Grade: Hint, What: "another allocator", Value: file,
			Effect: "could take glibc's malloc's place in ONNX Runtime and PyTorch: faster with " +
				"many threads, and it gives " +
				"memory back by rules of its own",
			Fix: "LD_PRELOAD=" + file, Source: source, Try: []string{"LD_PRELOAD=" + file}})
	}
	return list
}
