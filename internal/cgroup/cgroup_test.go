package cgroup

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// tree makes a file system of file names and contents.
func tree(files map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	v1Mounts = "32 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	v2Mount = "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
)

// TestFind: each controller has its own groups in version 1, all have one in version 2, the
// process's own first.
func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		mounts, groups, controller, file string
		want                             []string
	}{
		"version 1": {v1Mounts, "4:cpu,cpuacct:/a/b\n3:memory:/m\n0::/\n", "cpu", "cpu.cfs_quota_us",
			[]string{"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us",
				"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"}},
		"version 1, another controller": {v1Mounts, "4:cpu,cpuacct:/a/b\n3:memory:/m\n0::/\n", "memory", "x",
			[]string{"/sys/fs/cgroup/memory/m/x", "/sys/fs/cgroup/memory/x"}},
		"version 2": {v2Mount, "0::/a\n", "cpu", "cpu.max",
			[]string{"/sys/fs/cgroup/a/cpu.max", "/sys/fs/cgroup/cpu.max"}},
		"both": {v1Mounts + "36 31 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "4:cpu,cpuacct:/\n0::/\n",
			"cpu", "x", []string{"/sys/fs/cgroup/cpu,cpuacct/x", "/sys/fs/cgroup/unified/x"}},
		"a controller that no group has": {v1Mounts, "4:cpu,cpuacct:/\n", "pids", "x", nil},
		"no groups":                      {"", "", "cpu", "x", nil},
		"nonsense":                       {"- - -\n1 2\n", "x:y\n::::\n", "cpu", "x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree(map[string]string{"proc/self/mountinfo": c.mounts, "proc/self/cgroup": c.groups,
				"sys/fs/cgroup/a/cpu.max": "max 100000\n"})
			var got []string
			for _, g := range Find(files, c.controller) {
				got = append(got, g.Path(c.file))
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestRead(t *testing.T) {
	files := tree(map[string]string{"proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/a\n",
		"sys/fs/cgroup/a/cpu.max": "max 100000\n"})
	list := Find(files, "cpu")
	require.Len(t, list, 2)
	require.Equal(t, "max 100000\n", list[0].Read("cpu.max"))
	require.Empty(t, list[1].Read("cpu.max"))
	require.Equal(t, 2, list[0].Version)
}
