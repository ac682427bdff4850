package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"memopt/view/report"
)

// threadVariables say how many threads a library starts; memopt gives the libraries that it opens
// one thread for each of its own.
var threadVariables = []struct{ name, who string }{
	{"OMP_NUM_THREADS", "programs with OpenMP, such as PyTorch"},
	{"OPENBLAS_NUM_THREADS", "OpenBLAS in other programs, such as NumPy"},
	{"GOTO_NUM_THREADS", "OpenBLAS in other programs, such as NumPy"},
	{"MKL_NUM_THREADS", "MKL, as in PyTorch"},
}

// threadCounts holds numbers of threads to the cores that can be used.
func threadCounts(m *Machine) []Finding {
	c := m.Cores()
	usable := c.Usable()
	if usable == 0 {
		return nil
	}
	var list []Finding
	for _, v := range threadVariables {
		text, ok := m.set(v.name)
		if !ok {
			continue
		}
		f := Finding{What: v.name, Value: text, Source: fmt.Sprintf("the variable; %d cores can "+
			"be used", usable),
			Try: []string{fmt.Sprintf("%s=%d", v.name, usable)}}
		first, _, _ := strings.Cut(text, ",") // OpenMP has a number for each level of nesting
		n, err := strconv.Atoi(strings.TrimSpace(first))
		switch {
		case err != nil || n <= 0:
			f.Grade, f.Effect, f.Fix = Hint, "is no number of threads", "unset "+v.name
		case n > usable:
			f.Grade, f.Effect = Slows, fmt.Sprintf("%s: %d threads share %d cores", v.who, n,
				usable)
			f.Fix = fmt.Sprintf("%s=%d, or unset it", v.name, usable)
		case n < usable:
			f.Grade, f.Effect = Hint, fmt.Sprintf("%s: %d of %d cores are used; memopt does not "+
				"heed it", v.who, n, usable)
			f.Fix = fmt.Sprintf("%s=%d, unless several such programs run side by side", v.name,
				usable)
		default:
			f.Grade, f.Effect, f.Try = Fine, "one thread per core", nil
		}
		list = append(list, f)
	}
	return list
}

// goRuntime examines the variables of Go's runtime, which memopt itself uses.
func goRuntime(m *Machine) []Finding {
	var list []Finding
	add := func(name string, grade Grade, effect, fix string) {
		value, _ := m.Env(name)
		list = append(list, Finding{Grade: grade, What: name, Value: value, Effect: effect,
			Fix:    fix,
			Source: "Go, package runtime: environment variables", Try: []string{name + "="}})
	}
	c := m.Cores()
	usable := c.Usable()
	if text, ok := m.set("GOMAXPROCS"); ok {
		switch n, err := strconv.Atoi(text); {
		case err != nil || n <= 0:
			add("GOMAXPROCS", Hint, "is no number of threads: it is ignored", "unset GOMAXPROCS")
		case usable > 0 && n < usable:
			add("GOMAXPROCS", Slows, fmt.Sprintf("memopt computes with %d of %d cores", n, usable),
				"unset GOMAXPROCS")
		case usable > 0 && n > usable:
			add("GOMAXPROCS", Slows, fmt.Sprintf("memopt starts %d threads for %d cores", n,
				usable), "unset GOMAXPROCS")
		}
	}
	if text, ok := m.set("GOMEMLIMIT"); ok {
		n, known := goBytes(text)
		switch available, has := m.sizeField("proc/meminfo", "MemAvailable"); {
		case !known: // then no Go program starts, this one neither
		case n < smallHeap:
			add("GOMEMLIMIT", Slows, "memopt's collector runs all the time once its heap is as "+
				"large; models' weights and "+
				"tensors lie outside the heap", "unset GOMEMLIMIT: memopt sets a limit by the "+
				"memory that is left")
		case has && n > available:
			add("GOMEMLIMIT", Memory, fmt.Sprintf("the heap may grow beyond the %s that are free",
				report.Bytes(available)), "unset GOMEMLIMIT: memopt sets a limit by the memory "+
				"that is left")
		}
	}
	if text, ok := m.set("GOGC"); ok {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < lowGOGC {
			add("GOGC", Slows, "the collector runs whenever the heap has grown by so many percent",
				"unset GOGC")
		} else if err == nil && n > highGOGC {
			add("GOGC", Memory, "the heap grows by so many percent before garbage is collected",
				"unset GOGC")
		}
	}
	for setting := range strings.SplitSeq(m.value("GODEBUG"), ",") {
		switch name, value, _ := strings.Cut(setting, "="); {
		case strings.HasPrefix(name, "cpu.") && value == "off":
			add("GODEBUG", Slows, "memopt's inner loops do without these instructions "+
				"("+setting+")", "unset GODEBUG")
		case setting == "madvdontneed=0":
			add("GODEBUG", Memory, "memory that Go programs give back counts as theirs until "+
				"others want it", "unset GODEBUG")
		}
	}
	return list
}

// value returns a variable, or "" if it is not set.
func (m *Machine) value(name string) string {
	text, _ := m.Env(name)
	return text
}

// Limits of noteworthy values: Go's default of GOGC is 100.
const (
	smallHeap = 64 << 20
	lowGOGC   = 25
	highGOGC  = 400
)

// goUnits are the units of GOMEMLIMIT.
var goUnits = []struct {
	suffix string
	shift  int
}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}, {"", 0}}

// goBytes reads a value of GOMEMLIMIT; "off" is no limit.
func goBytes(text string) (int64, bool) {
	if text == "off" {
		return math.MaxInt64, true
	}
	for _, u := range goUnits {
		if digits, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64>>u.shift {
				return 0, false
			}
			return n << u.shift, true
		}
	}
	return 0, false
}
