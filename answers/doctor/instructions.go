package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// level is the widest vector instructions of a processor, or of a library's kernels.
type level int

const (
	unknownLevel level = iota
	sse
	avx
	avx2
	avx512
)

var levelNames = [...]string{"none", "SSE", "AVX", "AVX2", "AVX-512"}

func (l level) String() string { return levelNames[l] }

// levelFlags are the flags in /proc/cpuinfo that stand for a level, the widest first. OpenBLAS and
// oneDNN ask for all three parts of AVX-512.
var levelFlags = []struct {
	level level
	flags []string
}{
	{avx512, []string{"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
	{avx2, []string{"avx2", "fma"}},
	{avx, []string{"avx"}},
	{sse, []string{"sse2"}},
}

// processor returns the widest vector instructions that the processor has; unknownLevel where this
// is no x86.
func (m *Machine) processor() level {
	have := strings.Fields(m.field("proc/cpuinfo", "flags"))
	for _, l := range levelFlags {
		if !slices.ContainsFunc(l.flags, func(flag string) bool {
			return !slices.Contains(have,
				flag)
		}) {
			return l.level
		}
	}
	return unknownLevel
}

// ceiling is a variable that limits the instructions of a library.
type ceiling struct {
	variable, library string
	values            map[string]level // in capitals; unknownLevel: no ceiling
	source            string
}

var (
	// openblasCores are the kernels that OPENBLAS_CORETYPE chooses from.
	openblasCores = map[string]level{
		"KATMAI": sse, "COPPERMINE": sse, "NORTHWOOD": sse, "PRESCOTT": sse, "BANIAS": sse,
		"ATOM": sse, "CORE2": sse,
		"PENRYN": sse, "DUNNINGTON": sse, "NEHALEM": sse, "ATHLON": sse, "OPTERON": sse,
		"OPTERON_SSE3": sse,
		"BARCELONA":    sse, "NANO": sse, "BOBCAT": sse,
		"SANDYBRIDGE": avx, "BULLDOZER": avx, "PILEDRIVER": avx, "STEAMROLLER": avx,
		"EXCAVATOR": avx2, "HASWELL": avx2, "ZEN": avx2,
		"SKYLAKEX": avx512, "COOPERLAKE": avx512, "SAPPHIRERAPIDS": avx512,
	}
	dnnlLevels = map[string]level{"SSE41": sse, "AVX": avx, "AVX2": avx2, "AVX2_VNNI": avx2,
		"AVX2_VNNI_2": avx2,
		"AVX512_CORE": avx512, "AVX512_CORE_VNNI": avx512, "AVX512_CORE_BF16": avx512,
		"AVX512_CORE_FP16": avx512,
		"AVX512_CORE_AMX":  avx512, "AVX512_CORE_AMX_FP16": avx512, "ALL": unknownLevel,
		"DEFAULT": unknownLevel}
	dnnlSource = "oneDNN developer guide, CPU dispatcher control"
)

// ceilings lists the variables.
var ceilings = []ceiling{
	{"OPENBLAS_CORETYPE", "OpenBLAS", openblasCores, "OpenBLAS, driver/others/dynamic.c; " +
		"docs/doctor.md"},
	{"ONEDNN_MAX_CPU_ISA", "oneDNN", dnnlLevels, dnnlSource},
	{"DNNL_MAX_CPU_ISA", "oneDNN", dnnlLevels, dnnlSource},
	{"MKL_ENABLE_INSTRUCTIONS", "MKL", map[string]level{"SSE4_2": sse, "AVX": avx, "AVX2": avx2,
		"AVX2_E1": avx2,
		"AVX512":  avx512, "AVX512_E1": avx512, "AVX512_E2": avx512, "AVX512_E3": avx512,
		"AVX512_E4": avx512},
		"oneMKL developer guide, Instruction Set Specific Dispatching"},
	{"ATEN_CPU_CAPABILITY", "PyTorch", map[string]level{"DEFAULT": sse, "AVX2": avx2,
		"AVX512": avx512},
		"PyTorch, aten/src/ATen/native/DispatchStub.cpp"},
}

// instructions looks for variables that keep libraries from a processor's instructions.
func instructions(m *Machine) []Finding {
	have := m.processor()
	if have == unknownLevel {
		return nil
	}
	list := []Finding{{Grade: Fine, What: "processor",
		Value:  strings.TrimSpace(m.field("proc/cpuinfo", "model name") + " with " + have.String()),
		Effect: "libraries choose their kernels by it", Source: "/proc/cpuinfo"}}
	held := false
	for _, c := range ceilings {
		value, ok := m.set(c.variable)
		if !ok {
			continue
		}
		f := c.judge(value, have)
		held = held || c.library == "OpenBLAS" && f.Grade == Slows
		list = append(list, f)
	}
	if f, ok := chosenCore(m, have); ok && !held {
		list = append(list, f)
	}
	return list
}

// judge describes the effect of a value on a processor.
func (c *ceiling) judge(value string, have level) Finding {
	f := Finding{What: c.variable, Value: value, Source: c.source, Try: []string{c.variable + "="}}
	asked, known := c.values[strings.ToUpper(strings.TrimSpace(value))]
	switch {
	case !known:
		f.Grade, f.Effect, f.Fix = Hint, c.library+" does not know this value, as far as memopt "+
			"knows", "unset "+c.variable
	case asked == unknownLevel || asked == have:
		f.Grade, f.Effect, f.Try = Fine, c.library+" uses the processor's instructions", nil
	case asked < have:
		f.Grade, f.Fix = Slows, "unset "+c.variable
		f.Effect = fmt.Sprintf("%s uses %v on a processor with %v", c.library, asked, have)
		if asked == avx2 && have == avx512 && c.library == "OpenBLAS" {
			f.Effect += ": training steps take 1.6 to 2 times as long"
		}
	default:
		f.Grade, f.Fix = Limits, "unset "+c.variable
		f.Effect = fmt.Sprintf("asks for %v, the processor has %v: %s takes other kernels, or "+
			"the program ends with an "+
			"illegal instruction", asked, have, c.library)
	}
	return f
}

// chosenCore is the finding that OpenBLAS itself has chosen kernels below the processor's level, as
// releases older than the processor do.
func chosenCore(m *Machine, have level) (Finding, bool) {
	for _, l := range m.Libraries {
		core := l.Kernels
		if l.Name != openBLAS || core == "" {
			continue
		}
		if level, known := openblasCores[strings.ToUpper(core)]; known && level < have &&
			have == avx512 {
			return Finding{Grade: Slows, What: "OpenBLAS's kernels", Value: core,
				Effect: fmt.Sprintf("it uses %v on a processor with %v, which it does not know",
					level, have),
				Fix:    "OPENBLAS_CORETYPE=SkylakeX, or a newer OpenBLAS",
				Source: "openblas_get_config; OpenBLAS, driver/others/dynamic.c",
				Try:    []string{"OPENBLAS_CORETYPE=SkylakeX"}}, true
		}
	}
	return Finding{}, false
}
