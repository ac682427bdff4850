package doctor

import (
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
)

// Machine is the examined machine: the system's files, the environment, and the libraries that were
// found.
type Machine struct {
	Files     fs.FS // the root of the file system
	Env       func(name string) (string, bool)
	Libraries []Library
}

// This is the machine that the program runs on, its libraries left out.
func This() *Machine { return &Machine{Files: os.DirFS("/"), Env: os.LookupEnv} }

// read returns a file, or "" if it cannot be read.
func (m *Machine) read(name string) string {
	data, err := fs.ReadFile(m.Files, name)
	if err != nil {
		return ""
	}
	return string(data)
}

// word returns a file of one word.
func (m *Machine) word(name string) string { return strings.TrimSpace(m.read(name)) }

// has reports whether a file is there.
func (m *Machine) has(name string) bool {
	_, err := fs.Stat(m.Files, name)
	return err == nil
}

// set returns a variable that is set and not empty.
func (m *Machine) set(name string) (string, bool) {
	text, _ := m.Env(name)
	return text, text != ""
}

// field returns the text behind "name:" in a file of such lines, or "".
func (m *Machine) field(file, name string) string {
	for line := range strings.Lines(m.read(file)) {
		if key, text, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// sizeField is field for a size in kB; false if it is absent.
func (m *Machine) sizeField(file, name string) (int64, bool) {
	number, isSize := strings.CutSuffix(m.field(file, name), " kB")
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if !isSize || err != nil || n < 0 || n > math.MaxInt64>>10 {
		return 0, false
	}
	return n << 10, true
}

// mostListed bounds how many numbers a list of the kernel's may have.
const mostListed = 1 << 16

// listed counts the numbers in a list of the kernel's, such as "0-3,8"; 0 if it is not such a list.
func listed(text string) int {
	sum := 0
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to-from >= mostListed {
			return 0
		}
		sum += to - from + 1
	}
	return sum
}
