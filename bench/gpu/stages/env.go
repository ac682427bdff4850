package stages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"memopt/executor/cuda/driver"
	"memopt/graph"
	"memopt/graph/onnx"
)

// runEnv records the machine's equipment.
func runEnv(r *runner) {
	r.version()
	r.card()
	if r.backend == "cuda" {
		r.device()
	} else {
		r.row("the driver", NotAvailable, "the checks run on "+r.backend)
	}
	var v runReport
	a := r.smallStep(&v)
	r.judge("a small training step runs", a.code == 0, a.why(), Figure{"step", v.Time.Median, "ms"})
}

// small is a network with a loss, in ONNX's textual syntax.
const small = `<ir_version: 8, opset_import: ["" : 17]>
	small (float[batch, 8] x, int64[batch] labels, float[16, 8] w, float[4, 16] v) => (float loss) {
		h = Gemm<transB = 1>(x, w)
		r = Relu(h)
		s = Gemm<transB = 1>(r, v)
		loss = SoftmaxCrossEntropyLoss(s, labels)
	}`

// smallStep takes three training steps of a small network.
func (r *runner) smallStep(v *runReport) *answer {
	file := filepath.Join(r.tmp, "small.onnx")
	m, err := graph.Parse(small, file)
	if err == nil {
		err = onnx.WriteFile(file, m, onnx.Options{})
	}
	if err != nil {
		return &answer{code: -1, stderr: err.Error()}
	}
	return r.onDevice(v, "run", file, "--level", "0", "--dim", "batch=4", "--init", "random:1", "-r", "3")
}

func (r *runner) version() {
	a := r.memopt("version")
	if a.code != 0 {
		r.row("memopt starts", Fail, a.why())
		return
	}
	r.row(strings.TrimSpace(string(a.stdout)), Pass, "")
}

// card asks nvidia-smi.
func (r *runner) card() {
	a := r.exec("", nil, "nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,power.limit",
		"--format=csv,noheader")
	if a.code != 0 {
		r.row("nvidia-smi", NotAvailable, a.why())
		return
	}
	r.row("nvidia-smi", Pass, strings.ReplaceAll(strings.TrimSpace(string(a.stdout)), "\n", " | "))
}

// libraries are parts of the names of files that count as found.
var libraries = []string{"libcuda", "libcublas", "libcudnn", "libnvidia-ml"}

// device opens the driver and reports its answers, and the files that it opened.
func (r *runner) device() {
	d, err := driver.Open(0)
	if err != nil {
		r.row("the driver", Fail, err.Error())
		return
	}
	defer d.Close()
	i := d.Info()
	free, total, err := d.MemInfo()
	if err != nil {
		r.row("the driver", Fail, err.Error())
		return
	}
	r.row(fmt.Sprintf("%s, compute capability %d.%d, driver for CUDA %d.%d", i.Name, i.Major, i.Minor,
		i.DriverVersion/1000, i.DriverVersion%1000/10), Pass, "",
		Figure{"multiprocessors", float64(i.Processors), ""}, Figure{"memory", float64(total), "bytes"},
		Figure{"free", float64(free), "bytes"})
	r.ownLibraries(d)
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		r.row("libraries that are open", Pass, strings.Join(mapped(string(maps)), " "))
	}
}

// ownLibraries has the driver open the libraries that it otherwise opens when they are first
// needed, and says which are not available and why.
func (r *runner) ownLibraries(d driver.Driver) {
	s, err := d.NewStream()
	if err != nil {
		r.row("a stream", Fail, err.Error())
		return
	}
	point := driver.ConvCase{N: 1, C: 1, M: 1, Groups: 1, Axes: 2, In: [3]int{1, 1, 1}, Out: [3]int{1, 1, 1},
		Kernel: [3]int{1, 1, 1}, Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}}
	_, conv := d.ConvAlgos(s, &driver.Conv{ConvCase: point}, driver.SearchHeuristic)
	for _, l := range []struct {
		name string
		err  error
	}{{"libcublas", d.Gemm(s, &driver.Gemm{LDA: 1, LDB: 1, LDC: 1})}, {"libcudnn", conv}} {
		missing := (*driver.Missing)(nil)
		switch {
		case l.err == nil:
			r.row(l.name, Pass, "")
		case errors.As(l.err, &missing):
			r.row(l.name, NotAvailable, l.err.Error())
		default:
			r.row(l.name, Fail, l.err.Error())
		}
	}
}

// mapped lists the files of /proc/self/maps that are NVIDIA's libraries.
func mapped(maps string) []string {
	var files []string
	for line := range strings.Lines(maps) {
		_, file, ok := strings.Cut(line, "/")
		file = "/" + strings.TrimSpace(file)
		if ok && !slices.Contains(files, file) &&
			slices.ContainsFunc(libraries, func(name string) bool {
				return strings.HasPrefix(filepath.Base(file), name)
			}) {
			files = append(files, file)
		}
	}
	return files
}
