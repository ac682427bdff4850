package stages

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"memopt/executor/cuda/driver"
)

// precision is how a benchmark computes.
type precision struct {
	name string
	half bool     // the model is converted
	args []string // of memopt
}

var (
	f32  = precision{name: "float32"}
	tf32 = precision{name: "tf32", args: []string{"--tf32"}}
	bf16 = precision{name: "bfloat16", half: true}
)

// slower is the most that a step may take, as a multiple of PyTorch's time.
const slower = 1.5

// benchGPT2 returns the benchmark of gpt2_124m's training step.
func benchGPT2(p precision) func(*runner) {
	return func(r *runner) {
		s := sized{"gpt2_124m", map[string]int64{"batch": 8, "seq": 1024}}
		if r.toy {
			s = sized{"gpt2_tiny", map[string]int64{"batch": 2, "seq": 8}}
		}
		r.benchmark(s, "gpt2", p)
	}
}

func runBenchResNet(r *runner) {
	s := sized{"resnet50", map[string]int64{"batch": 32}}
	if r.toy {
		s = sized{"resnet_tiny", map[string]int64{"batch": 2}}
	}
	r.benchmark(s, "resnet50", f32)
}

// benchmark times a training step, forward and backward, and the same network in PyTorch right
// after it.
func (r *runner) benchmark(s sized, peer string, p precision) {
	m := r.named(s.name)
	if m == nil {
		return
	}
	if p.half {
		file := filepath.Join(r.tmp, "half.onnx")
		if err := convertFile(m.file, file); err != nil {
			r.row(m.name+" in "+p.name, Fail, err.Error())
			return
		}
		m.file = file
	}
	steps := []string{"--level", "0", "--warmup", "3", "-r", "10"}
	if r.toy {
		steps = []string{"--level", "0", "-r", "2"}
	}
	args := append(append(m.inputs(s.dims), steps...), p.args...)
	own, ok := r.time(m.name+", "+p.name+", memopt", m, args)
	r.time(m.name+", "+p.name+", memopt, captured", m, append(args, "--cuda-graph"))
	theirs := r.peer(peer, p, s)
	if ok && theirs > 0 {
		r.judge(m.name+", "+p.name+": time beside PyTorch's", own <= slower*theirs || r.toy,
			fmt.Sprintf("more than %v times PyTorch's", slower), Figure{"ratio", own / theirs, ""})
	}
}

// time runs steps in memopt and returns the median in milliseconds.
func (r *runner) time(check string, m *model, args []string) (float64, bool) {
	var v runReport
	a := r.onDevice(&v, "run", m.file, args...)
	figures := []Figure{{"median", v.Time.Median, "ms"}, {"min", v.Time.Min, "ms"},
		{"arena", float64(v.Peak.Measured), "bytes"}, {"inputs and weights", float64(v.Peak.Persistent), "bytes"},
		{"nodes on the host", nodes(v.OnHost), ""}}
	switch {
	case a.code == exitInfeasible:
		r.row(check, NotAvailable, a.why())
	case a.code != 0:
		r.row(check, Fail, a.why())
	case v.NotCaptured != "":
		r.row(check, NotAvailable, v.NotCaptured)
	default:
		r.row(check, Pass, "", figures...)
	}
	return v.Time.Median, a.code == 0
}

// peer times the network in PyTorch and returns the median in milliseconds, 0 if PyTorch is
// missing.
func (r *runner) peer(name string, p precision, s sized) float64 {
	check := fmt.Sprintf("%s, %s, PyTorch eager", s.name, p.name)
	device := "cuda"
	if r.backend != "cuda" {
		device = "cpu"
	}
	args := []string{filepath.Join(r.bundle, "peer_torch.py"), name, p.name, device, fmt.Sprint(s.dims["batch"]),
		fmt.Sprint(s.dims["seq"])}
	if r.toy {
		args = append(args, "toy")
	}
	a := r.exec("", nil, r.python, args...)
	var v struct {
		Missing string  `json:"missing"`
		Median  float64 `json:"median_ms"`
		Min     float64 `json:"min_ms"`
		Memory  float64 `json:"peak_bytes"`
		Version string  `json:"version"`
	}
	switch err := json.Unmarshal(a.stdout, &v); {
	case a.code != 0:
		r.row(check, NotAvailable, a.why())
	case err != nil:
		r.row(check, Fail, err.Error())
	case v.Missing != "":
		r.row(check, NotAvailable, v.Missing)
	default:
		r.row(check+" "+v.Version, Pass, "", Figure{"median", v.Median, "ms"}, Figure{"min", v.Min, "ms"},
			Figure{"peak", v.Memory, "bytes"})
		return v.Median
	}
	return 0
}

// predictionError is the most, as a share, that a step's predicted slowdown may differ from the
// measured one.
const predictionError = 0.10

// runBenchRecompute compares the cost of recomputation with its prediction: by times measured on
// this machine, and by the profile of the card if there is one.
func runBenchRecompute(r *runner) {
	list := []sized{{"gpt2_124m", map[string]int64{"batch": 4, "seq": 1024}},
		{"resnet50", map[string]int64{"batch": 32}}}
	if r.toy {
		list = []sized{toyBatch}
	}
	for _, s := range list {
		m := r.named(s.name)
		if m == nil {
			continue
		}
		r.overhead(m, s, "times of this machine", func() ([]string, string) {
			times := filepath.Join(r.tmp, s.name+".json")
			var v runReport
			a := r.onDevice(&v, "run",
				m.file, append(m.inputs(s.dims), "--level", "0", "--warmup", "2", "-r", "3", "--profile", times)...)
			if a.code != 0 {
				return nil, a.why()
			}
			return []string{"--cost", times}, ""
		})
		r.overhead(m, s, "the h200 profile", func() ([]string, string) {
			if name := r.cardName(); !strings.Contains(name, "H200") && !r.toy {
				return nil, "the card is no H200: " + name
			}
			return []string{"--device", "h200"}, ""
		})
	}
}

// cardName is the GPU's name, or why it is not known.
func (r *runner) cardName() string {
	d, err := driver.Open(0)
	if err != nil {
		return err.Error()
	}
	defer d.Close()
	return d.Info().Name
}

// overhead verifies a plan with costs predicted in one way: costs returns the arguments for it, or
// the reason why they are not available.
func (r *runner) overhead(m *model, s sized, way string, costs func() ([]string, string)) {
	check := fmt.Sprintf("%s: overhead predicted by %s", m.name, way)
	args, why := costs()
	if why != "" {
		r.row(check, NotAvailable, why)
		return
	}
	var v verifyReport
	a := r.onDevice(&v, "verify",
		m.file, slices.Concat(m.inputs(s.dims), []string{"--warmup", "1", "-r", "5"}, r.budgetOf("70%"), args)...)
	switch {
	case a.code == exitInfeasible:
		r.row(check, NotAvailable, a.why())
		return
	case a.code != 0 || v.Predicted == nil:
		r.row(check, Fail, a.why())
		return
	}
	off := math.Abs(*v.Predicted-v.Slowdown) / v.Slowdown
	r.judge(check, off <= predictionError || r.toy, fmt.Sprintf("more than %.0f %% off", 100*predictionError),
		Figure{"predicted", *v.Predicted, "times"}, Figure{"measured", v.Slowdown, "times"},
		Figure{"saved", float64(v.Saved), "bytes"})
}
