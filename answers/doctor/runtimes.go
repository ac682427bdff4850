package doctor

import (
	"slices"
	"strings"

	"memopt/hint"
)

// Names of libraries, as findings have them.
const (
	openBLAS    = "OpenBLAS"
	oneDNN      = "oneDNN"
	onnxRuntime = "ONNX Runtime"
	cudaDriver  = "CUDA driver"
	cuBLAS      = "cuBLAS"
	cuDNN       = "cuDNN"
)

// gpuLibraries are of no use without a GPU.
var gpuLibraries = []string{cudaDriver, cuBLAS, cuDNN}

// Library is a C library that memopt opens at run time, found or not.
type Library struct {
	Name    string
	Version string // "OpenBLAS 0.3.21"; "" if it is absent
	Path    string // of the file that was opened
	Kernels string // that OpenBLAS has chosen, as it calls them
	Doubt   string // a reason to distrust the file; "" without doubt
	// Missing is the reason for an absent library, and Refused lists the files that were examined
	// and rejected, with the reasons.
	Missing string
	Refused []string
}

// use is the purpose of a library, and the effect of its absence.
type use struct {
	name, variable, without string
	grade                   Grade // of its absence
	get                     string
}

var uses = []use{
	{openBLAS, "MEMOPT_OPENBLAS", "products of matrices on the CPU are computed by Go code", Slows,
		"install OpenBLAS (Debian and Ubuntu: libopenblas0)"},
	{oneDNN, "MEMOPT_DNNL", "convolutions on the CPU, and with AVX-512 products, are computed " +
		"without it", Hint,
		"install oneDNN 2.6 (Debian 12: libdnnl2)"},
	{onnxRuntime, "MEMOPT_ORT_LIB", "-e ort is not to be had", Hint,
		"pip install onnxruntime, or npm install onnxruntime-node"},
	{cudaDriver, "MEMOPT_LIBCUDA", "-e cuda is not to be had", Limits, "install NVIDIA's driver"},
	{cuBLAS, "MEMOPT_CUBLAS", "products of matrices on the GPU are computed by memopt's own " +
		"kernels", Slows,
		"install CUDA's libcublas, or pip install nvidia-cublas-cu12"},
	{cuDNN, "MEMOPT_CUDNN", "convolutions on the GPU are computed by memopt's own kernels", Slows,
		"install libcudnn, or pip install nvidia-cudnn-cu12"},
}

// absentValue is the value of a library that is not there.
const absentValue = "none"

// libraries lists the present libraries, and why others are absent.
func libraries(m *Machine) []Finding {
	var list []Finding
	for _, l := range m.Libraries {
		for _, u := range uses {
			if u.name == l.Name {
				list = append(list, m.libraryFinding(&l, &u))
			}
		}
	}
	return list
}

func (m *Machine) libraryFinding(l *Library, u *use) Finding {
	f := Finding{Grade: Fine, What: l.Name, Source: u.variable + "; else the linker's path and " +
		"the usual places"}
	refused := ""
	if len(l.Refused) > 0 {
		refused = "; not taken: " + strings.Join(l.Refused, "; ")
	}
	switch {
	case l.Version != "" && l.Doubt != "":
		f.Grade, f.Value = Limits, l.Version+", "+l.Path
		f.Effect, f.Fix = l.Doubt+", so anything put there runs with your rights",
			"move it, or change its permissions"
	case l.Version != "":
		f.Value, f.Effect = strings.TrimSuffix(l.Version+", "+l.Path, ", "), "is used"+refused
	case m.value(u.variable) == "off":
		f.Grade, f.Value, f.Effect = u.grade, "off", u.without
		f.Fix, f.Try = "unset "+u.variable, []string{u.variable + "="}
	default:
		f.Grade, f.Value, f.Effect, f.Fix = u.grade, absentValue, u.without+": "+l.Missing+refused,
			u.get
		if slices.Contains(gpuLibraries, u.name) && !m.hasGPU() {
			f.Grade, f.Fix = Fine, ""
		}
	}
	return f
}

// hasGPU reports whether the system shows a GPU of NVIDIA's.
func (m *Machine) hasGPU() bool { return m.has("dev/nvidiactl") || m.has("dev/dxg") }

// found reports whether a library is there.
func (m *Machine) found(name string) bool {
	for _, l := range m.Libraries {
		if l.Name == name && l.Version != "" {
			return true
		}
	}
	return false
}

// ortSettings are the settings of ONNX Runtime's sessions that cost memory or time by default.
// Programs set them, so the machine does not show them.
func ortSettings(m *Machine) []Finding {
	if !m.found(onnxRuntime) {
		return nil
	}
	c := m.Cores()
	list := []Finding{
		{What: "enable_mem_pattern", Value: "on by default",
			Effect: "from the second run on a block for all values is taken beside the arena's memory: 192 MiB " +
				"became 384; " +
				"where sizes vary, each new size takes another",
			Fix:    "enable_mem_pattern = False; memopt run -e ort " + hint.MemPattern.With("off").String(),
			Source: "docs/onnxruntime.md, measured with 1.30.0"},
		{What: "arena_extend_strategy", Value: "kNextPowerOfTwo by default",
			Effect: "each block that the arena asks the system for is at least twice the one " +
				"before: much of the last may stay unused",
			Fix: "kSameAsRequested; memopt run -e ort " +
				hint.ArenaExtend.With("kSameAsRequested").String(),
			Source: "ONNX Runtime, OrtArenaCfg"},
		{What: "arena shrinkage", Value: "off by default",
			Effect: "the memory of one large run stays with the session",
			Fix:    `run option memory.enable_memory_arena_shrinkage = "cpu:0", after runs of rare sizes`,
			Source: "ONNX Runtime, onnxruntime_run_options_config_keys.h"},
		{What: "intra_op_num_threads", Value: "one per core by default",
			Effect: "threads spin while they wait: with other work, or a quota, on the same " +
				"cores both become slower",
			Fix: `set it; session.intra_op.allow_spinning = "0"; memopt run -e ort ` +
				hint.Threads.With("N").String(),
			Source: "ONNX Runtime, Thread management"},
	}
	if c.Usable() == 1 {
		list = list[:3]
	}
	for i := range list {
		list[i].Grade = Hint
		list[i].What = onnxRuntime + ": " + list[i].What
	}
	return list
}

// ortModuleVariables are variables of ORTModule's.
var ortModuleVariables = []struct {
	name string
	used bool
	as   hint.Option // where memopt uses it
}{
	{"ORTMODULE_MEMORY_OPT_LEVEL", true, hint.Level},
	{"ORTMODULE_MEMORY_OPT_CONFIG", true, hint.Config},
	{name: "ORTMODULE_ALLOW_AUTOGRAD_CHECKPOINT"},
	{name: "ORTMODULE_ENABLE_COMPUTE_OPTIMIZER"},
	{name: "ORTMODULE_CACHE_DIR"},
}

// ortModule lists variables of ORTModule's that are set.
func ortModule(m *Machine) []Finding {
	var list []Finding
	for _, v := range ortModuleVariables {
		if value, ok := m.set(v.name); ok {
			effect := "means nothing to memopt"
			if v.used {
				effect = "plan, apply, run, verify and train take it for " + v.as.String()
			}
			list = append(list, Finding{Grade: Fine, What: v.name, Value: value, Effect: effect,
				Source: "ONNX Runtime, Memory_Optimizer.md; memopt config show"})
		}
	}
	return list
}

// cudaVariables are variables that cost time or memory on a GPU, with the smallest value that does.
var cudaVariables = []struct {
	name, value   string
	grade         Grade
	effect, where string
}{
	{"CUDA_LAUNCH_BLOCKING", "1", Slows, "every launch waits for the one before",
		"CUDA programming guide"},
	{"CUDA_MODULE_LOADING", "EAGER", Memory, "all kernels of all libraries are loaded to the " +
		"device at once",
		"CUDA programming guide, Lazy Loading"},
	{"NVIDIA_TF32_OVERRIDE", "0", Slows, "no library uses TF32", "cuBLAS documentation"},
	{"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", Slows, "PyTorch asks the driver for every tensor",
		"PyTorch, CUDA semantics"},
}

// cudaSettings looks at variables that concern GPUs.
func cudaSettings(m *Machine) []Finding {
	var list []Finding
	if value, isSet := m.Env("CUDA_VISIBLE_DEVICES"); isSet && (value == "" ||
		strings.HasPrefix(value, "-")) {
		list = append(list, Finding{Grade: Limits, What: "CUDA_VISIBLE_DEVICES", Value: value,
			Effect: "hides every GPU", Fix: "unset CUDA_VISIBLE_DEVICES",
			Source: "CUDA programming guide"})
	}
	for _, v := range cudaVariables {
		if m.value(v.name) == v.value {
			list = append(list, Finding{Grade: v.grade, What: v.name, Value: v.value,
				Effect: v.effect,
				Fix:    "unset " + v.name, Source: v.where, Try: []string{v.name + "="}})
		}
	}
	return list
}
