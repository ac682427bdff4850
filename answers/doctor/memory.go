package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"memopt/internal/cgroup"
	"memopt/view/report"
)

// MemoryLimit is the smallest limit of the control groups that a process is in.
type MemoryLimit struct {
	Bytes int64  // 0 without a limit
	File  string // that says so
}

// unlimited is the limit that version 1 reports for a group without one: the largest number of
// bytes in whole pages, for all page sizes.
const unlimited = math.MaxInt64 >> 17 << 17

// memoryLimit reads the smallest of the limits that files of these names hold, in version 1 and 2.
func (m *Machine) memoryLimit(name1, name2 string) (least MemoryLimit) {
	for _, g := range cgroup.Find(m.Files, "memory") {
		name := name1
		if g.Version == 2 {
			name = name2
		}
		n, err := strconv.ParseInt(strings.TrimSpace(g.Read(name)), 10, 64)
		if name != "" && err == nil && n >= 0 && n < unlimited && (least.File == "" ||
			n < least.Bytes) {
			least = MemoryLimit{n, g.Path(name)}
		}
	}
	return least
}

// Memory returns the machine's memory, 0 if it is unknown, and the limit of the control groups.
func (m *Machine) Memory() (total int64, limit MemoryLimit) {
	total, _ = m.sizeField("proc/meminfo", "MemTotal")
	return total, m.memoryLimit("memory.limit_in_bytes", "memory.max")
}

// memoryLimits examines the bounds on the memory of a process.
func memoryLimits(m *Machine) []Finding {
	total, limit := m.Memory()
	var list []Finding
	if total > 0 {
		free, _ := m.sizeField("proc/meminfo", "MemAvailable")
		list = append(list, Finding{Grade: Fine, What: "memory",
			Value:  fmt.Sprintf("%s, %s of it free", report.Bytes(total), report.Bytes(free)),
			Effect: "memopt refuses sizes that do not fit before it takes memory", Source: "/proc/meminfo"})
	}
	if limit.File != "" && (total == 0 || limit.Bytes < total) {
		list = append(list, Finding{Grade: Limits, What: "memory limit",
			Value: report.Bytes(limit.Bytes),
			Effect: "the system kills processes that take more, though the machine has " +
				"" + report.Bytes(total),
			Fix:    "give plans this budget, or raise the container's limit",
			Source: limit.File})
	}
	if high := m.memoryLimit("", "memory.high"); high.File != "" && (total == 0 ||
		high.Bytes < total) {
		list = append(list, Finding{Grade: Limits, What: "memory.high",
			Value:  report.Bytes(high.Bytes),
			Effect: "whoever takes more is made to wait while the system reclaims memory",
			Fix:    "stay below it, or raise it", Source: high.File + "; Linux, cgroup-v2.rst"})
	}
	for _, l := range []struct{ name, flag, effect string }{
		{"Max address space", "-v", "mapped models, arenas and stacks count in full, touched or " +
			"not"},
		{"Max data size", "-d", "arenas and heaps count in full, touched or not"},
	} {
		if n, ok := m.processLimit(l.name); ok {
			list = append(list, Finding{Grade: Limits, What: "ulimit " + l.flag,
				Value: report.Bytes(n), Effect: l.effect,
				Fix: "ulimit " + l.flag + " unlimited", Source: "/proc/self/limits; getrlimit(2)"})
		}
	}
	return list
}

// processLimit reads a resource limit of this process; false without a limit.
func (m *Machine) processLimit(name string) (int64, bool) {
	for line := range strings.Lines(m.read("proc/self/limits")) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			fields := strings.Fields(rest)
			if len(fields) == 0 {
				return 0, false
			}
			n, err := strconv.ParseInt(fields[0], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// overcommit looks at whether mappings count before they are touched.
func overcommit(m *Machine) []Finding {
	const file = "proc/sys/vm/overcommit_memory"
	mode := m.word(file)
	f := Finding{Grade: Fine, What: "overcommit", Value: mode,
		Effect: "memory counts when it is touched",
		Source: "/" + file + "; proc_sys_vm(5)"}
	switch mode {
	case "0", "1":
		return []Finding{f}
	case "2":
	default:
		return nil
	}
	limit, _ := m.sizeField("proc/meminfo", "CommitLimit")
	used, _ := m.sizeField("proc/meminfo", "Committed_AS")
	f.Grade, f.Value = Limits, fmt.Sprintf("2: %s of %s are promised", report.Bytes(used),
		report.Bytes(limit))
	f.Effect = "mappings count as soon as they are made: CUDA and arenas that reserve more than " +
		"they use are refused"
	f.Fix = "sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio"
	return []Finding{f}
}

// hugePages looks at transparent huge pages.
func hugePages(m *Machine) []Finding {
	const file = "sys/kernel/mm/transparent_hugepage/enabled"
	_, rest, ok := strings.Cut(m.read(file), "[")
	mode, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return nil
	}
	f := Finding{What: "transparent huge pages", Value: mode,
		Source: "/" + file + "; Linux, Documentation/admin-guide/mm/transhuge.rst"}
	switch mode {
	case "never":
		f.Grade = Slows
		f.Effect = "large tensors lie in pages of 4 KiB: 512 page faults instead of one, and " +
			"more misses of the TLB"
		f.Fix = "as root: echo madvise > /" + file
	case "always":
		f.Grade = Memory
		f.Effect = "every touched piece of a large mapping takes 2 MiB, also of heaps that are " +
			"used sparsely"
		f.Fix = "as root: echo madvise > /" + file + " (memopt asks for huge pages where it " +
			"wants them)"
	default:
		f.Grade = Fine
		f.Effect = "memopt asks for huge pages for its arenas; glibc's malloc, so ONNX Runtime " +
			"and PyTorch, does not " +
			"unless it is told to"
		if !strings.Contains(m.value("GLIBC_TUNABLES"), "glibc.malloc.hugetlb") {
			f.Grade, f.Fix = Hint, "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 (glibc 2.35 or later)"
			f.Try = []string{f.Fix[:strings.Index(f.Fix, " ")]}
		}
	}
	return []Finding{f}
}
