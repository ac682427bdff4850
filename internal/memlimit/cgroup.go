package memlimit

import (
	"io/fs"
	"math"
	"strconv"
	"strings"

	"memopt/internal/cgroup"
)

// group is a control group that counts memory.
type group struct {
	cgroup.Group
	files *groupFiles
}

// groupFiles are the names of the files of a version of control groups with the limits and the
// usage.
type groupFiles struct {
	limit, usage string
	// swapLimit and swapUsage are of swap alone in version 2, of memory and swap together in
	// version 1.
	swapLimit, swapUsage string
	together             bool
	// reclaimable lists the lines of memory.stat with memory that the kernel drops before it kills:
	// the cache of files, but for files in memory, which only swap can hold, and caches of its own.
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

func (g *group) limitFile() string { return g.Path(g.files.limit) }

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

// unlimited is the number of version 1 for a group without a limit: the largest number of bytes in
// whole pages, whatever their size.
const unlimited = math.MaxInt64 >> 17 << 17

// number reads a file of one number; false if there is no such file, or no limit ("max").
func (g *group) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(g.Read(name)), 10, 64)
	return n, err == nil && n >= 0 && n < unlimited
}

func (g *group) reclaimable() (sum int64) {
	lines := map[string]int64{}
	for line := range strings.Lines(g.Read("memory.stat")) {
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
func findGroups(files fs.FS) []group {
	var list []group
	for _, g := range cgroup.Find(files, "memory") {
		names := version1
		if g.Version == 2 {
			names = version2
		}
		list = append(list, group{g, names})
	}
	return list
}
