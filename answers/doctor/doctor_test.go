package doctor

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"memopt/view/report"
)

// machine makes a machine of files and variables.
func machine(files, env map[string]string) *Machine {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return &Machine{Files: m, Env: func(name string) (string, bool) {
		text,
			ok := env[name]
		return text, ok
	}}
}

const (
	avx512Flags = "flags\t\t: fpu sse2 avx avx2 fma avx512f avx512dq avx512bw avx512vl\n"
	avx2Flags   = "flags\t\t: fpu sse2 avx avx2 fma avx512f\n" // a part of AVX-512 is none of it
	mountV2     = "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 " +
		"rw,nsdelegate\n"
	mountV1 = "32 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)

// node is a machine of 64 cores in a container of version 2 that may use 4 of them, on 16 by
// affinity.
func node() map[string]string {
	return map[string]string{
		"proc/cpuinfo":                   "processor\t: 0\nmodel name\t: Xeon\n" + avx512Flags,
		"sys/devices/system/cpu/online":  "0-63\n",
		"proc/self/status":               "Name:\tmemopt\nCpus_allowed_list:\t0-11,48-51\n",
		"proc/self/cgroup":               "0::/pod/job\n",
		"proc/self/mountinfo":            mountV2,
		"sys/fs/cgroup/pod/cpu.max":      "400000 100000\n",
		"sys/fs/cgroup/pod/cpu.stat":     "usage_usec 5\nnr_periods 7\nnr_throttled 6\n",
		"sys/fs/cgroup/pod/job/cpu.max":  "max 100000\n",
		"sys/fs/cgroup/pod/memory.max":   "8589934592\n",
		"sys/fs/cgroup/pod/job/cpu.stat": "nr_throttled 99\n",
		"proc/meminfo": "MemTotal:       67108864 kB\nMemAvailable:   33554432 " +
			"kB\n",
		"proc/loadavg": "70.50 3.00 2.00 1/100 5\n",
	}
}

// find returns the finding about something, with every property that a finding needs.
func find(t *testing.T, m *Machine, what string) *Finding {
	t.Helper()
	for _, f := range m.Examine() {
		require.NotEmpty(t, f.Effect, f.What)
		require.NotEmpty(t, f.Source, f.What)
		require.NotNil(t, f.Try, f.What)
		require.Contains(t, titles, f.Grade)
		if f.Grade != Fine {
			require.NotEmpty(t, f.Fix, f.What)
		}
		if f.What == what {
			return &f
		}
	}
	return nil
}

// want holds a finding to its grade and to parts of its text; grade "" means that there is none.
func want(t *testing.T, m *Machine, what string, grade Grade, parts ...string) {
	t.Helper()
	f := find(t, m, what)
	if grade == "" {
		require.Nil(t, f, what)
		return
	}
	require.NotNil(t, f, what)
	require.Equal(t, grade, f.Grade, what)
	for _, part := range parts {
		require.Contains(t, f.Value+"|"+f.Effect+"|"+f.Fix+"|"+strings.Join(f.Try, " "), part, what)
	}
}

func TestCores(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		want   Cores
		usable int
	}{
		"version 2, the outer group": {node(), Cores{64, 16, 4, "/sys/fs/cgroup/pod/cpu.max", 6},
			4},
		"version 1": {map[string]string{"sys/devices/system/cpu/online": "0-7",
			"proc/self/status": "Cpus_allowed_list: 0-7\n",
			"proc/self/cgroup": "3:cpu,cpuacct:/a\n", "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":  "250000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":    "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":   "100000\n"},
			Cores{8, 8, 2.5, "/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", 0}, 3},
		"a quota above the cores": {map[string]string{"proc/self/status": "Cpus_allowed_list: 3\n",
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/cpu.max": "800000 100000"},
			Cores{0, 1, 8, "/sys/fs/cgroup/cpu.max", 0}, 1},
		"less than a core": {map[string]string{"proc/cpuinfo": "processor : 0\n\nprocessor : 1\n",
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/cpu.max": "50000 100000"},
			Cores{2, 0, 0.5, "/sys/fs/cgroup/cpu.max", 0}, 1},
		"nothing is known": {nil, Cores{}, 0},
		"nonsense": {map[string]string{"sys/devices/system/cpu/online": "3-1",
			"proc/self/status": "Cpus_allowed_list: x\n",
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/cpu.max": "5 0"}, Cores{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := machine(c.files, nil).Cores()
			require.Equal(t, c.want, got)
			require.Equal(t, c.usable, got.Usable())
		})
	}
}

// TestSmallestLimit: of nested groups the one that allows the least counts, wherever it stands.
func TestSmallestLimit(t *testing.T) {
	for _, c := range [][2]string{{"2", "4"}, {"4", "2"}} {
		m := machine(map[string]string{"proc/self/status": "Cpus_allowed_list: 0-7\n", "proc/self/cgroup": "0::/a\n",
			"proc/self/mountinfo": mountV2, "sys/fs/cgroup/a/cpu.max": c[0] + "00000 100000",
			"sys/fs/cgroup/cpu.max": c[1] + "00000 100000", "sys/fs/cgroup/a/memory.max": c[0],
			"sys/fs/cgroup/memory.max": c[1]}, nil)
		require.Equal(t, 2.0, m.Cores().Quota)
		_, limit := m.Memory()
		require.Equal(t, int64(2), limit.Bytes)
	}
	_, limit := machine(map[string]string{"proc/self/cgroup": "3:memory:/\n", "proc/self/mountinfo": mountV1,
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, nil).Memory()
	require.Empty(t, limit.File, "version 1 says so of no limit")
}

func TestListed(t *testing.T) {
	for text, n := range map[string]int{"0": 1, "0-3": 4, "0-3,8,10-11\n": 7, "": 0, "a": 0,
		"3-1": 0, "0-": 0, "-1": 0,
		"0-99999999999": 0, "0-9999999": 0} {
		require.Equal(t, n, listed(text), text)
	}
}

func TestSpeed(t *testing.T) {
	m := machine(node(), nil)
	want(t, m, "cores", Limits, "16 of 64, by affinity")
	want(t, m, "CPU quota", Slows, "4.00 of 16 cores", "OMP_NUM_THREADS=4", "stopped 6 times")
	want(t, machine(node(), map[string]string{"OMP_NUM_THREADS": "4"}), "CPU quota", Limits)
	want(t, m, "load", Hint, "70.50 on 64 cores")
	want(t, m, "processor", Fine, "Xeon with AVX-512")

	free := machine(map[string]string{"sys/devices/system/cpu/online": "0-3",
		"proc/loadavg":     "4.00 1 1",
		"proc/self/status": "Cpus_allowed_list:\t0-3\n"}, nil)
	want(t, free, "cores", Fine, "4")
	want(t, free, "CPU quota", "")
	want(t, free, "load", "")
	want(t, free, "processor", "") // no flags of x86
}

// TestInstructions: a variable that holds a library below the processor is found, for every value
// that the library knows.
func TestInstructions(t *testing.T) {
	for _, c := range []struct {
		flags, variable, value string
		grade                  Grade
		part                   string
	}{
		{avx512Flags, "OPENBLAS_CORETYPE", "Haswell", Slows, "1.6 to 2 times"},
		{avx512Flags, "OPENBLAS_CORETYPE", "haswell", Slows, "AVX2 on a processor with AVX-512"},
		{avx512Flags, "OPENBLAS_CORETYPE", "Nehalem", Slows, "SSE on a processor with AVX-512"},
		{avx512Flags, "OPENBLAS_CORETYPE", "SkylakeX", Fine, ""},
		{avx2Flags, "OPENBLAS_CORETYPE", "Haswell", Fine, ""},
		{avx2Flags, "OPENBLAS_CORETYPE", "ZEN", Fine, ""},
		{avx2Flags, "OPENBLAS_CORETYPE", "Sandybridge", Slows, "AVX on a processor with AVX2"},
		{avx2Flags, "OPENBLAS_CORETYPE", "SkylakeX", Limits, "illegal instruction"},
		{avx2Flags, "OPENBLAS_CORETYPE", "Hasswell", Hint, "does not know"},
		{avx512Flags, "ONEDNN_MAX_CPU_ISA", "AVX2", Slows, "oneDNN uses AVX2"},
		{avx512Flags, "DNNL_MAX_CPU_ISA", "ALL", Fine, ""},
		{avx2Flags, "MKL_ENABLE_INSTRUCTIONS", "SSE4_2", Slows, "MKL uses SSE"},
		{avx512Flags, "ATEN_CPU_CAPABILITY", "default", Slows, "PyTorch uses SSE"},
	} {
		m := machine(map[string]string{"proc/cpuinfo": c.flags},
			map[string]string{c.variable: c.value})
		want(t, m, c.variable, c.grade, c.part)
		if c.grade == Slows {
			want(t, m, c.variable, c.grade, c.variable+"=", "unset "+c.variable)
		}
	}
	want(t, machine(map[string]string{"proc/cpuinfo": avx512Flags},
		map[string]string{"OPENBLAS_CORETYPE": ""}),
		"OPENBLAS_CORETYPE", "")
	for _, core := range openblasCores {
		require.NotEqual(t, unknownLevel, core)
	}

	// A library that does not know the processor.
	m := machine(map[string]string{"proc/cpuinfo": avx512Flags}, nil)
	m.Libraries = []Library{{Name: openBLAS, Version: "OpenBLAS 0.3.10", Kernels: "Zen"}}
	want(t, m, "OpenBLAS's kernels", Slows, "OPENBLAS_CORETYPE=SkylakeX")
	m.Libraries[0].Kernels = "SkylakeX"
	want(t, m, "OpenBLAS's kernels", "")
	m = machine(map[string]string{"proc/cpuinfo": avx512Flags},
		map[string]string{"OPENBLAS_CORETYPE": "Haswell"})
	m.Libraries = []Library{{Name: openBLAS, Version: "OpenBLAS 0.3.10", Kernels: "Haswell"}}
	want(t, m, "OpenBLAS's kernels", "") // the variable has chosen it, and is named already
}

func TestThreads(t *testing.T) {
	files := map[string]string{"sys/devices/system/cpu/online": "0-3",
		"proc/meminfo": "MemAvailable: 1048576 kB\n"}
	for _, c := range []struct {
		variable, value string
		grade           Grade
		part            string
	}{
		{"OMP_NUM_THREADS", "8", Slows, "8 threads share 4 cores"},
		{"OMP_NUM_THREADS", "5,2", Slows, "5 threads"},
		{"OMP_NUM_THREADS", "4", Fine, ""},
		{"OMP_NUM_THREADS", "1", Hint, "1 of 4 cores"},
		{"OMP_NUM_THREADS", "many", Hint, "no number"},
		{"MKL_NUM_THREADS", "9", Slows, "MKL"},
		{"GOMAXPROCS", "2", Slows, "2 of 4 cores"},
		{"GOMAXPROCS", "16", Slows, "16 threads for 4 cores"},
		{"GOMAXPROCS", "4", "", ""},
		{"GOMAXPROCS", "-4", Hint, "ignored"},
		{"GOMEMLIMIT", "32MiB", Slows, "all the time"},
		{"GOMEMLIMIT", "512MiB", "", ""},
		{"GOMEMLIMIT", "2GiB", Memory, "1.00 GiB that are free"},
		{"GOMEMLIMIT", "off", Memory, ""},
		{"GOMEMLIMIT", "1000", Slows, ""},
		{"GOGC", "10", Slows, ""},
		{"GOGC", "100", "", ""},
		{"GOGC", "800", Memory, ""},
		{"GOGC", "off", "", ""},
		{"GODEBUG", "gctrace=1,cpu.avx2=off", Slows, "cpu.avx2=off"},
		{"GODEBUG", "madvdontneed=0", Memory, ""},
		{"GODEBUG", "gctrace=1", "", ""},
	} {
		want(t, machine(files, map[string]string{c.variable: c.value}), c.variable, c.grade, c.part)
	}
}

func TestMemory(t *testing.T) {
	m := machine(node(), nil)
	want(t, m, "memory", Fine, "64.00 GiB, 32.00 GiB of it free")
	want(t, m, "memory limit", Limits, "8.00 GiB")

	v1 := map[string]string{"proc/self/cgroup": "3:memory:/a\n", "proc/self/mountinfo": mountV1,
		"proc/meminfo": "MemTotal: 67108864 kB\n",
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":   "1073741824\n"}
	want(t, machine(v1, nil), "memory limit", Limits, "1.00 GiB")
	v1["sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n"
	want(t, machine(v1, nil), "memory limit", "")
	v1["sys/fs/cgroup/memory/memory.limit_in_bytes"] = "137438953472\n" // more than there is
	want(t, machine(v1, nil), "memory limit", "")

	high := node()
	high["sys/fs/cgroup/pod/job/memory.high"] = "4294967296\n"
	want(t, machine(high, nil), "memory.high", Limits, "4.00 GiB")

	ulimit := machine(map[string]string{"proc/self/limits": "Limit                     Soft " +
		"Limit           Hard Limit\n" +
		"Max data size             unlimited            unlimited            bytes\n" +
		"Max address space         1073741824           unlimited            bytes\n"}, nil)
	want(t, ulimit, "ulimit -v", Limits, "1.00 GiB")
	want(t, ulimit, "ulimit -d", "")

	const file = "proc/sys/vm/overcommit_memory"
	want(t, machine(map[string]string{file: "0\n"}, nil), "overcommit", Fine)
	want(t, machine(map[string]string{file: "2\n", "proc/meminfo": "CommitLimit: 1048576 " +
		"kB\nCommitted_AS: 1024 kB\n"}, nil),
		"overcommit", Limits, "1.00 MiB of 1.00 GiB")
	want(t, machine(map[string]string{file: "what"}, nil), "overcommit", "")

	const thp = "sys/kernel/mm/transparent_hugepage/enabled"
	for text, grade := range map[string]Grade{"always madvise [never]\n": Slows,
		"[always] madvise never\n": Memory,
		"always [madvise] never\n": Hint, "always": "", "[": ""} {
		want(t, machine(map[string]string{thp: text}, nil), "transparent huge pages", grade)
	}
	want(t, machine(map[string]string{thp: "[madvise]"},
		map[string]string{"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
		"transparent huge pages", Fine)
	want(t, machine(map[string]string{thp: "[madvise]"}, nil), "transparent huge pages", Hint,
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1")
}

func TestAllocator(t *testing.T) {
	files := map[string]string{"sys/devices/system/cpu/online": "0-3"}
	want(t, machine(files, nil), "MALLOC_ARENA_MAX", Hint, "up to 32 heaps",
		"MALLOC_ARENA_MAX=1 MALLOC_ARENA_MAX=2")
	want(t, machine(files, map[string]string{"MALLOC_ARENA_MAX": "2"}), "MALLOC_ARENA_MAX", Fine)
	want(t, machine(files, map[string]string{"GLIBC_TUNABLES": "a=b:glibc.malloc.arena_max=1"}),
		"glibc.malloc.arena_max",
		Fine, "1")
	want(t, machine(map[string]string{"sys/devices/system/cpu/online": "0"}, nil),
		"MALLOC_ARENA_MAX", "")
	for _, v := range mallocVariables {
		want(t, machine(files, map[string]string{v.variable: "1"}), v.variable, v.grade,
			v.variable+"=")
		want(t, machine(files, map[string]string{"GLIBC_TUNABLES": v.tunable + "=1"}), v.tunable,
			v.grade,
			"GLIBC_TUNABLES=")
		want(t, machine(files, nil), v.variable, "")
	}

	files["usr/lib64/libjemalloc.so.2"] = ""
	files["usr/lib/x86_64-linux-gnu/libmimalloc.so.2"] = ""
	files["usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"] = ""
	files["opt/conda/lib/libtcmalloc_minimal.so.4"] = ""
	m := machine(files, map[string]string{"CONDA_PREFIX": "/opt/conda"})
	require.Equal(t, []string{"/usr/lib/x86_64-linux-gnu/libmimalloc.so.2",
		"/usr/lib64/libjemalloc.so.2",
		"/opt/conda/lib/libtcmalloc_minimal.so.4"}, m.Allocators())
	want(t, m, "another allocator", Hint, "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libmimalloc.so.2")
	m = machine(files, map[string]string{"LD_PRELOAD": "/usr/lib64/libjemalloc.so.2"})
	want(t, m, "LD_PRELOAD", Fine)
	want(t, m, "another allocator", "")
	want(t, m, "MALLOC_ARENA_MAX", "")
	want(t, machine(files, map[string]string{"LD_PRELOAD": "/gone.so"}), "LD_PRELOAD", Hint,
		"no such file")
	want(t, machine(files, map[string]string{"LD_PRELOAD": "/usr/lib64/x.so libfoo.so"}),
		"LD_PRELOAD", Hint)
}

func TestLibraries(t *testing.T) {
	m := machine(nil, nil)
	m.Libraries = []Library{
		{Name: openBLAS, Missing: "it was not found", Refused: []string{"libopenblas.so.0: takes " +
			"64-bit integers"}},
		{Name: oneDNN, Version: "oneDNN 2.6.3", Path: "/usr/lib/libdnnl.so.2"},
		{Name: onnxRuntime, Version: "ONNX Runtime 1.30.0", Path: "/tmp/x.so",
			Doubt: "any user can write to /tmp/x.so"},
		{Name: cudaDriver, Missing: "no NVIDIA driver"},
		{Name: cuBLAS, Missing: "there is no GPU"},
	}
	want(t, m, openBLAS, Slows, "none", "it was not found; not taken: libopenblas.so.0: takes "+
		"64-bit integers", "libopenblas0")
	want(t, m, oneDNN, Fine, "oneDNN 2.6.3, /usr/lib/libdnnl.so.2")
	want(t, m, onnxRuntime, Limits, "any user can write")
	want(t, m, cudaDriver, Fine, "no NVIDIA driver")
	want(t, m, cuBLAS, Fine)
	want(t, m, "ONNX Runtime: enable_mem_pattern", Hint)

	m.Files = machine(map[string]string{"dev/nvidiactl": ""}, nil).Files
	want(t, m, cudaDriver, Limits, "no NVIDIA driver")
	want(t, m, cuBLAS, Slows)
	m.Env = func(name string) (string, bool) { return "off", name == "MEMOPT_OPENBLAS" }
	want(t, m, openBLAS, Slows, "off", "MEMOPT_OPENBLAS=")

	m.Libraries = m.Libraries[:2]
	want(t, m, "ONNX Runtime: enable_mem_pattern", "")
	m = machine(map[string]string{"sys/devices/system/cpu/online": "0"}, nil)
	m.Libraries = []Library{{Name: onnxRuntime, Version: "ONNX Runtime 1.30.0"}}
	want(t, m, "ONNX Runtime: arena shrinkage", Hint)
	want(t, m, "ONNX Runtime: intra_op_num_threads", "") // one core has one thread
}

func TestVariables(t *testing.T) {
	for _, c := range []struct {
		variable, value string
		grade           Grade
	}{
		{"ORTMODULE_MEMORY_OPT_LEVEL", "1", Fine}, {"ORTMODULE_CACHE_DIR", "/x", Fine},
		{"CUDA_VISIBLE_DEVICES", "-1", Limits}, {"CUDA_VISIBLE_DEVICES", "", Limits},
		{"CUDA_VISIBLE_DEVICES", "0", ""},
		{"CUDA_LAUNCH_BLOCKING", "1", Slows}, {"CUDA_LAUNCH_BLOCKING", "0", ""},
		{"CUDA_MODULE_LOADING", "EAGER", Memory}, {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", Slows},
	} {
		want(t, machine(nil, map[string]string{c.variable: c.value}), c.variable, c.grade)
	}
	want(t, machine(nil, nil), "CUDA_VISIBLE_DEVICES", "")
}

// TestNothing: a system that says nothing has no findings, in every form.
func TestNothing(t *testing.T) {
	m := machine(nil, nil)
	require.Empty(t, m.Examine())
	var b bytes.Buffer
	require.NoError(t, m.Report(&b, report.TableFormat, nil))
	require.Equal(t, "No setting slows this machine down or costs memory.\n", b.String())
}

// TestOrder: the worst comes first, and the answer counts what it comes to.
func TestOrder(t *testing.T) {
	m := machine(node(), map[string]string{"OPENBLAS_CORETYPE": "Haswell", "GOGC": "900",
		"LD_PRELOAD": "/gone\x1b.so"})
	list := m.Examine()
	require.Equal(t, "2 things slow this machine down, 1 costs memory, 2 limit usable memory, cores or "+
		"devices; hints: 3.",
		Answer(list))
	require.Equal(t, "OPENBLAS_CORETYPE", list[1].What)
	require.Equal(t, Slows, list[0].Grade)
	require.Equal(t, Fine, list[len(list)-1].Grade)
	for _, format := range report.Formats {
		var b bytes.Buffer
		require.NoError(t, m.Report(&b, format, list))
		require.Contains(t, b.String(), "Haswell")
		require.NotContains(t, b.String(), "\x1b")
		for line := range strings.Lines(b.String()) {
			if format == report.TableFormat {
				require.LessOrEqual(t, len([]rune(line)), columns+1, line)
			}
		}
	}
	require.Equal(t, "1 thing slows this machine down.", Answer([]Finding{{Grade: Slows}}))
	require.Equal(t, "2 cost memory, 1 limits usable memory, cores or devices.",
		Answer([]Finding{{Grade: Memory}, {Grade: Memory}, {Grade: Limits}}))
	require.Equal(t, "No setting slows this machine down or costs memory; hints: 1.",
		Answer([]Finding{{Grade: Hint}}))
}

// TestThis: the machine that the tests run on can be examined.
func TestThis(t *testing.T) {
	m := This()
	if _, err := fs.Stat(m.Files, "proc/self/status"); err != nil {
		return // no Linux: nothing is known of it
	}
	c := m.Cores()
	require.Positive(t, c.Usable())
	find(t, m, "")
}
