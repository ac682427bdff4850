package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Setting is a variable that a trial changes.
type Setting struct {
	Name  string
	Value string // "": the variable is left out
}

// ParseSetting reads NAME=VALUE; NAME= leaves the variable out.
func ParseSetting(text string) (Setting, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.ContainsAny(name, " \t\n\x00") || strings.Contains(value,
		"\x00") {
		return Setting{}, fmt.Errorf("setting %q: wanted NAME=VALUE, or NAME= to leave a variable "+
			"out", text)
	}
	return Setting{name, value}, nil
}

// String returns the form that ParseSetting reads.
func (s Setting) String() string { return s.Name + "=" + s.Value }

// apply returns an environment, in the form of os.Environ, with the setting.
func (s Setting) apply(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, s.Name+"=")
	})
	if s.Value == "" {
		return env
	}
	return append(env, s.String())
}

// always are settings of glibc's allocator that are worth a trial on every machine: the sizes are
// half of glibc's initial limits, which it raises as a program frees mapped memory.
var always = []Setting{
	{"MALLOC_ARENA_MAX", "1"}, {"MALLOC_ARENA_MAX", "2"},
	{"MALLOC_TRIM_THRESHOLD_", "65536"}, {"MALLOC_MMAP_THRESHOLD_", "65536"},
	{"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"},
}

// Settings are the initial ones of a trial on a machine: those named by the findings, then those of
// glibc's allocator that are always worth a trial. Those that are in force are left out.
func (m *Machine) Settings(list []Finding) []Setting {
	var all []Setting
	add := func(s Setting) {
		if have, set := m.set(s.Name); (set && have == s.Value) || slices.Contains(all, s) ||
			!set && s.Value == "" {
			return
		}
		all = append(all, s)
	}
	for _, f := range list {
		for _, text := range f.Try {
			if s, err := ParseSetting(text); err == nil {
				add(s)
			}
		}
	}
	for _, s := range always {
		add(s)
	}
	return all
}
