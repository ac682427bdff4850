package memlimit

import (
	"math"
	"path"
	"strconv"
	"strings"
)

// group is a control group that counts memory.
type group struct {
	system *System
	dir    string // below the system's root
	files  *groupFiles
}

// groupFiles are the names by which a version of control groups says what is limited and used.
type groupFiles struct {
	limit, usage string
	// swapLimit and swapUsage are of swap alone in version 2, of memory and swap together in
	// version 1.
	swapLimit, swapUsage string
	together             bool
	// reclaimable lists the lines of memory.stat with what the kernel drops before it kills: the
	// cache of files, but for files in memory, which only swap can hold, and caches of its own.
	// Those of version 1 count the groups below as well, as all do in version 2.
	reclaimable []string
}

var (
	version1 = &groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.memsw.limit_in_bytes",
		"memory.memsw.usage_in_bytes", true,
		[]string{"total_inactive_file", "total_active_file"}}
	version2 = &groupFiles{"memory.max", "memory.current", "memory.swap.max", "memory.swap.current", false,
		[]string{"inactive_file", "active_file", "slab_reclaimable"}}
)

func (g *group) limitFile() string { return "/" + path.Join(g.dir, g.files.limit) }

// left returns how many bytes the group and those in it may still take with the given free swap;
// false if the group has no limit.
func (g *group) left(swapFree int64) (int64, bool) {
	limit, ok := g.number(g.files.limit)
	if !ok {
		return 0, false
	}
	usage, _ := g.number(g.files.usage)
	reclaimable := g.reclaimable()
	left := limit - max(0, usage-reclaimable)
	if swapLimit, ok := g.number(g.files.swapLimit); ok && swapFree > 0 {
		swapUsage, _ := g.number(g.files.swapUsage)
		if g.files.together {
			return min(add(left, swapFree), swapLimit-max(0, swapUsage-reclaimable)), true
		}
		swapFree = min(swapFree, max(0, swapLimit-swapUsage))
	}
	return add(max(0, left), swapFree), true
}

// unlimited is what version 1 says of a group without a limit: the largest number of bytes in whole
// pages, whatever their size.
const unlimited = math.MaxInt64 >> 17 << 17

// number reads a file of one number; false where there is none, or no limit ("max").
func (g *group) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(g.system.read(path.Join(g.dir, name))), 10, 64)
	return n, err == nil && n >= 0 && n < unlimited
}

func (g *group) reclaimable() (sum int64) {
	lines := map[string]int64{}
	for line := range strings.Lines(g.system.read(path.Join(g.dir, "memory.stat"))) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			lines[key] = n
		}
	}
	for _, key := range g.files.reclaimable {
		sum = add(sum, lines[key])
	}
	return sum
}

// findGroups returns the groups of the process that can bound its memory, of both versions, from
// the process's own to the roots.
func (s *System) findGroups() []group {
	v1, v2 := s.ownGroups()
	var list []group
	for line := range strings.Lines(s.read("proc/self/mountinfo")) {
		m, ok := parseMount(line)
		switch {
		case !ok:
		case m.kind == "cgroup2" && v2 != "":
			list = append(list, s.upwards(m, v2, version2)...)
		case m.kind == "cgroup" && v1 != "" && hasWord(m.options, "memory"):
			list = append(list, s.upwards(m, v1, version1)...)
		}
	}
	return list
}

// ownGroups reads which groups the process is in: of version 1's hierarchy of memory, and of
// version 2's, "" where it is in none (cgroups(7)).
func (s *System) ownGroups() (v1, v2 string) {
	for line := range strings.Lines(s.read("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			v2 = parts[2]
		case hasWord(parts[1], "memory"):
			v1 = parts[2]
		}
	}
	return v1, v2
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// mount is a mounted hierarchy of groups.
type mount struct{ root, point, kind, options string }

// parseMount reads a line of /proc/self/mountinfo (proc_pid_mountinfo(5)): the fourth field is the
// part of the file system that is mounted, the fifth where; behind a lone "-" come the type, the
// source and the file system's options.
func parseMount(line string) (m mount, ok bool) {
	before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
	head, tail := strings.Fields(before), strings.Fields(after)
	if !ok || len(head) < 5 || len(tail) < 3 {
		return m, false
	}
	return mount{unescape(head[3]), unescape(head[4]), tail[0], tail[2]}, true
}

// unescape undoes the escapes of mountinfo, such as \040 for a space.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// upwards lists a group of a mounted hierarchy and those that it is in. A group that lies outside
// what is mounted, as a container sees those of its host, is taken to be the mount's root.
func (s *System) upwards(m mount, own string, files *groupFiles) []group {
	rest := "/"
	if m.root == "/" {
		rest = own
	} else if below, ok := strings.CutPrefix(own, m.root); ok && (below == "" || below[0] == '/') {
		rest = below
	}
	if strings.HasPrefix(rest, "/..") {
		rest = "/"
	}
	var list []group
	for rest = path.Clean("/" + rest); ; rest = path.Dir(rest) {
		list = append(list, group{s, strings.TrimPrefix(path.Join(m.point, rest), "/"), files})
		if rest == "/" {
			return list
		}
	}
}
