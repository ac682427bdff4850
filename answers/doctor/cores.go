package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"memopt/hint"
	"memopt/internal/cgroup"
)

// Cores is how many cores a process may use.
type Cores struct {
	Online  int     // of the machine; 0 if unknown
	Allowed int     // by affinity; 0 if unknown
	Quota   float64 // of time, by control groups; 0 without a quota
	// QuotaFile is where the quota stands, Throttled how often it has stopped the group.
	QuotaFile string
	Throttled int64
}

// started is how many threads a program starts that asks for one per core.
func (c *Cores) started() int {
	if c.Allowed > 0 {
		return c.Allowed
	}
	return c.Online
}

// Usable is how many threads can run at the same time; 0 where that is unknown.
func (c *Cores) Usable() int {
	n := c.started()
	if c.Quota > 0 && (n == 0 || c.Quota < float64(n)) {
		return max(1, int(math.Ceil(c.Quota)))
	}
	return n
}

// Cores reads how many cores this process may use.
func (m *Machine) Cores() Cores {
	c := Cores{Online: listed(m.read("sys/devices/system/cpu/online")),
		Allowed: listed(m.field("proc/self/status", "Cpus_allowed_list"))}
	if c.Online == 0 {
		c.Online = strings.Count("\n"+m.read("proc/cpuinfo"), "\nprocessor")
	}
	for _, g := range cgroup.Find(m.Files, "cpu") {
		quota, file := quotaOf(&g)
		if quota > 0 && (c.Quota == 0 || quota < c.Quota) {
			c.Quota, c.QuotaFile, c.Throttled = quota, g.Path(file), throttled(&g)
		}
	}
	return c
}

// quotaOf returns a group's share of cores, 0 for no limit, and the file that says so.
func quotaOf(g *cgroup.Group) (quota float64, file string) {
	if g.Version == 1 {
		return share(g.Read("cpu.cfs_quota_us"), g.Read("cpu.cfs_period_us")), "cpu.cfs_quota_us"
	}
	most, period, _ := strings.Cut(strings.TrimSpace(g.Read("cpu.max")), " ")
	return share(most, period), "cpu.max"
}

// share is the quotient of two numbers, 0 unless both are positive.
func share(most, period string) float64 {
	q, err := strconv.ParseInt(strings.TrimSpace(most), 10, 64)
	p, err2 := strconv.ParseInt(strings.TrimSpace(period), 10, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return float64(q) / float64(p)
}

// throttled returns how often a group was stopped.
func throttled(g *cgroup.Group) int64 {
	for line := range strings.Lines(g.Read("cpu.stat")) {
		if text, ok := strings.CutPrefix(line, "nr_throttled "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return n
		}
	}
	return 0
}

// cores looks at affinity and quota.
func cores(m *Machine) []Finding {
	c := m.Cores()
	if c.Usable() == 0 {
		return nil
	}
	f := Finding{Grade: Fine, What: "cores", Value: fmt.Sprintf("%d", c.Online),
		Effect: "all of them can be used",
		Source: "/sys/devices/system/cpu/online"}
	if c.Allowed > 0 && c.Allowed < c.Online {
		f = Finding{Grade: Limits, What: "cores", Value: fmt.Sprintf("%d of %d, by affinity",
			c.Allowed, c.Online),
			Effect: "the other cores stay idle",
			Fix: "start without taskset, or ask the scheduler (Slurm, Kubernetes) for more " +
				"cores",
			Source: "Cpus_allowed_list in /proc/self/status"}
	}
	if c.Quota == 0 || c.Quota >= float64(c.started()) {
		return []Finding{f}
	}
	return []Finding{f, quotaFinding(m, &c)}
}

// quotaFinding describes the effect of a quota below the number of cores: a program with one thread
// per core gets more threads than may run.
func quotaFinding(m *Machine, c *Cores) Finding {
	n := c.Usable()
	const leastGo = 2 // threads of a Go program, however small the quota
	f := Finding{Grade: Slows, What: "CPU quota",
		Value: fmt.Sprintf("%.2f of %d cores", c.Quota, c.started()),
		Effect: fmt.Sprintf("OpenMP and ONNX Runtime start a thread for each of %d cores; once "+
			"the "+
			"quota of a period is used up, all of them are stopped (memopt starts %d by itself)",
			c.started(), max(n, leastGo)),
		Fix: fmt.Sprintf("OMP_NUM_THREADS=%d; intra_op_num_threads = %d in ONNX Runtime; or raise "+
			"the limit", n, n),
		Source: c.QuotaFile + "; Linux, Documentation/scheduler/sched-bwc.rst",
		Try:    []string{fmt.Sprintf("OMP_NUM_THREADS=%d", n)}}
	if c.Throttled > 0 {
		f.Effect += fmt.Sprintf("; stopped %d times so far", c.Throttled)
	}
	if have, ok := m.set("OMP_NUM_THREADS"); ok && have == strconv.Itoa(n) {
		f.Grade, f.Try = Limits, nil
	}
	return f
}

// otherWork looks for other running work.
func otherWork(m *Machine) []Finding {
	first, _, _ := strings.Cut(m.read("proc/loadavg"), " ")
	load, err := strconv.ParseFloat(first, 64)
	c := m.Cores()
	if err != nil || c.Online == 0 || load <= float64(c.Online) {
		return nil
	}
	return []Finding{{Grade: Hint, What: "load", Value: fmt.Sprintf("%.2f on %d cores", load,
		c.Online),
		Effect: "other work runs here: times that are measured now are too long",
		Fix: "measure on an idle machine, or compare runs that alternate, as verify and " +
			hint.Try.String() + " do",
		Source: "/proc/loadavg, the mean of the last minute"}}
}
