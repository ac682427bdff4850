package memlimit

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

// tree writes files below a new folder and returns a system that reads them.
func tree(t *testing.T, files map[string]string, limits ...rlimit) *System {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	return newSystem(os.DirFS(root), func() []rlimit { return limits })
}

const (
	mountV2 = "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "22 1 0:5 / /proc rw - proc proc rw\n32 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n35 " +
		"31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	plenty = "MemTotal:       67108864 kB\nMemFree:  1 kB\nMemAvailable:   67108864 kB\nSwapFree:              " +
		"0 kB\nHugePages_Total:       0\n"
	noSwap     = "SwapFree: 0 kB\n"
	outer      = "sys/fs/cgroup/a/"
	inner      = "sys/fs/cgroup/a/b/"
	memoryV1   = "sys/fs/cgroup/memory/a/"
	noLimitV1  = "9223372036854771712\n"
	megabyteV1 = "1048576\n"
)

// TestAvailable holds what is read of a system to the files that it has, byte for byte.
func TestAvailable(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		limits   []rlimit
		promised int64
		swap     bool
		want     int64
		by       string
	}{
		"machine": {files: map[string]string{"proc/meminfo": "MemAvailable: 1048576 kB\n"}, want: 1024*mib - keptMemory,
			by: "MemAvailable"},
		"machine with swap": {files: map[string]string{"proc/meminfo": "MemAvailable: 1048576 kB\nSwapFree: 1024 kB\n"},
			swap: true,
			want: 1025*mib - keptMemory, by: "SwapFree"},
		"swap is not counted unless asked": {files: map[string]string{"proc/meminfo": "MemAvailable: 1048576 " +
			"kB\nSwapFree: 1024 kB\n"},
			want: 1024*mib - keptMemory, by: "MemAvailable"},
		"what is promised and not resident": {files: map[string]string{"proc/meminfo": "MemAvailable: 1048576 kB\n",
			"proc/self/status": "VmSize: 1 kB\nRssAnon: 102400 kB\n"},
			promised: 300 * mib, want: 824*mib - keptMemory, by: "MemAvailable"},
		"version 2": {files: map[string]string{"proc/meminfo": plenty, "proc/self/mountinfo": mountV2,
			"proc/self/cgroup":   "0::/a\n",
			outer + "memory.max": "524288000\n", outer + "memory.current": "209715200\n",
			outer + "memory.stat": "anon 1\nfile 9\ninactive_file 52428800\nactive_file 20971520\nshmem " +
				"99\nslab_reclaimable 1048576\n"},
			want: 371*mib - keptMemory, by: "/sys/fs/cgroup/a/memory.max"},
		"version 2, bound by the outer group": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a/b\n",
			inner + "memory.max": "max\n", inner + "memory.current": "1\n",
			outer + "memory.max": "524288000\n", outer + "memory.current": "104857600\n"},
			want: 400*mib - keptMemory, by: "/sys/fs/cgroup/a/memory.max"},
		"version 2, bound by the inner group": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a/b\n",
			inner + "memory.max": "104857600\n", inner + "memory.current": "0\n",
			outer + "memory.max": "524288000\n", outer + "memory.current": "104857600\n"},
			want: 100*mib - keptMemory, by: "/sys/fs/cgroup/a/b/memory.max"},
		"version 2, swap": {files: map[string]string{"proc/meminfo": "MemAvailable: 67108864 kB\nSwapFree: 102400 kB\n",
			"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a\n",
			outer + "memory.max": "524288000\n", outer + "memory.current": "0\n",
			outer + "memory.swap.max": "31457280\n", outer + "memory.swap.current": "10485760\n"},
			swap: true, want: 520*mib - keptMemory, by: "memory.max"},
		"version 2, more used than allowed": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a\n",
			outer + "memory.max": "1048576\n", outer + "memory.current": "2097152\n"}, want: 0, by: "memory.max"},
		"a container without a name space of groups": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/cgroup":    "0::/docker/x/a\n",
			"proc/self/mountinfo": "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			outer + "memory.max":  "524288000\n", outer + "memory.current": "0\n"}, want: 500*mib - keptMemory,
			by: "/sys/fs/cgroup/a/memory.max"},
		"a group that is not to be seen": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/cgroup": "0::/../../a\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/memory.max": "524288000\n", "sys/fs/cgroup/memory.current": "0\n"},
			want: 500*mib - keptMemory, by: "/sys/fs/cgroup/memory.max"},
		"a mount of another group": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/cgroup":         "0::/docker/xy\n",
			"proc/self/mountinfo":      "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory.max": "524288000\n", "sys/fs/cgroup/memory.current": "0\n"},
			want: 500*mib - keptMemory, by: "/sys/fs/cgroup/memory.max"},
		"a mount point with a blank": {files: map[string]string{"proc/meminfo": plenty, "proc/self/cgroup": "0::/\n",
			"proc/self/mountinfo":  "30 23 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n",
			"my groups/memory.max": "524288000\n", "my groups/memory.current": "0\n"}, want: 500*mib - keptMemory,
			by: "/my groups/memory.max"},
		"version 1": {files: map[string]string{"proc/meminfo": plenty, "proc/self/mountinfo": mountV1,
			"proc/self/cgroup":                 "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n",
			memoryV1 + "memory.limit_in_bytes": "524288000\n", memoryV1 + "memory.usage_in_bytes": "209715200\n",
			memoryV1 + "memory.stat": "inactive_file 1\ntotal_inactive_file 52428800\ntotal_active_file 10485760\n"},
			want: 360*mib - keptMemory, by: "/sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
		"version 1 without a limit": {files: map[string]string{"proc/meminfo": plenty, "proc/self/mountinfo": mountV1,
			"proc/self/cgroup":                 "4:memory:/a\n",
			memoryV1 + "memory.limit_in_bytes": noLimitV1, memoryV1 + "memory.usage_in_bytes": megabyteV1},
			want: 65536*mib - keptMemory, by: "MemAvailable"},
		"version 1, memory and swap together": {files: map[string]string{"proc/meminfo": "MemAvailable: 67108864 " +
			"kB\nSwapFree: 102400 kB\n", "proc/self/mountinfo": mountV1,
			"proc/self/cgroup": "4:memory:/a\n", memoryV1 + "memory.limit_in_bytes": "524288000\n",
			memoryV1 + "memory.usage_in_bytes":       "0\n",
			memoryV1 + "memory.memsw.limit_in_bytes": "545259520\n",
			memoryV1 + "memory.memsw.usage_in_bytes": megabyteV1},
			swap: true, want: 519*mib - keptMemory, by: "limit_in_bytes"},
		"a resource limit": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/status": "VmSize:\t  204800 kB\nVmData: 1 kB\n"},
			limits: []rlimit{{"VmSize", 500 * mib, "ulimit -v", ""}, {"VmData", 600 * mib, "ulimit -d", ""}},
			want:   300 * mib, by: "ulimit -v"},
		"promises are in the size of a process": {files: map[string]string{"proc/meminfo": plenty,
			"proc/self/status": "VmSize: 204800 kB\n"},
			limits: []rlimit{{"VmSize", 500 * mib, "ulimit -v", ""}}, promised: 100 * mib, want: 300 * mib,
			by: "ulimit -v"},
	} {
		t.Run(name, func(t *testing.T) {
			l, ok := tree(t, c.files, c.limits...).available(c.promised, c.swap)
			require.True(t, ok)
			require.Equal(t, c.want, l.Bytes)
			require.Contains(t, l.By, c.by)
		})
	}
}

// TestNoLimits: a system that says nothing bounds nothing, and files of nonsense are as none.
func TestNoLimits(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no files": nil,
		"nonsense": {
			"proc/meminfo": "MemAvailable: many kB\nMemAvailable 5 kB\n" +
				"MemAvailable: 99999999999999999999 kB\n",
			"proc/self/mountinfo": "- - -\n1 2 3 4 5 6 - cgroup2\n\n" + mountV2,
			"proc/self/cgroup":    "0::\n1:memory\n::::\n", "sys/fs/cgroup/memory.max": "-5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := tree(t, files).available(0, true)
			require.False(t, ok)
		})
	}
}

// TestCheck: small pieces are taken on credit, and together they are bounded like a large one.
func TestCheck(t *testing.T) {
	defer Pretend(3 * mib)()
	require.NoError(t, Check(0, "nothing"))
	require.NoError(t, Check(3*mib, "all"))
	err := Check(3*mib+1, "tensor %q", "x")
	require.ErrorIs(t, err, ErrOutOfMemory)
	var e *Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, &Error{`tensor "x"`, 3*mib + 1, Limit{3 * mib, "a test", "end the test"}}, e)
	for _, part := range []string{`tensor "x"`, "3145729 bytes", "3145728 are left", "by a test", "end the test"} {
		require.Contains(t, err.Error(), part)
	}
	process.credit.Store(0)
	const piece = largeBytes / 2
	require.NoError(t, Check(piece, "a piece"))
	process.pretend.Store(&Limit{})
	for range (3*mib - piece) / 2 / piece {
		require.NoError(t, Check(piece, "on credit"))
	}
	require.Error(t, Check(piece, "beyond the credit"))
	require.Error(t, Check(largeBytes, "never on credit"))
	require.Error(t, Check(math.MaxInt64, "everything"))
	require.Zero(t, testing.AllocsPerRun(10, func() { process.credit.Store(mib); _ = Check(1, "small") }),
		"a small piece costs nothing")
}

// TestBoundHeap: the collector is told of the limit, unless the user has said something else.
func TestBoundHeap(t *testing.T) {
	old := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(old)
	for _, c := range []struct {
		variable   string
		left, want int64
	}{{"", 500 << 20, 500 << 20}, {"", 5 << 20, leastHeap}, {"1GiB", 500 << 20, old}} {
		debug.SetMemoryLimit(old)
		t.Setenv("GOMEMLIMIT", c.variable)
		restore := Pretend(c.left)
		BoundHeap()
		restore()
		require.Equal(t, c.want, debug.SetMemoryLimit(-1))
	}
}

// TestThisSystem: where the test runs, the system says how much it has.
func TestThisSystem(t *testing.T) {
	if _, err := os.Stat("/proc/meminfo"); err != nil {
		return // a system without proc(5) bounds nothing
	}
	l, ok := Available()
	require.True(t, ok)
	require.Positive(t, l.Bytes)
	require.NotEmpty(t, l.By)
	room, ok := Room()
	require.True(t, ok)
	err := Check(math.MaxInt64, "everything")
	require.ErrorIs(t, err, ErrOutOfMemory)
	require.True(t, strings.Contains(err.Error(), room.By), err)
}
