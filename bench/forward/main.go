// Command forward times forward graphs, and training steps, in memopt beside stock ONNX Runtime and
// PyTorch's modules on the same machine: one process each, steps taken in turn, so that a
// disturbance of the machine disturbs all.
//
//	go run ./bench/forward -step -rounds 20 -threads 2 gpt2_6l_256:batch=8,seq=256
//
// Peers that are not installed are left out, with a note. See bench/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/symbolic"
)

func main() {
	step := flag.Bool("step", false, "a whole training step: forward and backward")
	rounds := flag.Int("rounds", 15, "steps of each runtime")
	threads := flag.Int("threads", 2, "threads of each runtime")
	models := flag.String("models", "../shared/models", "folder of the models")
	python := flag.String("python", "/usr/bin/python3", "the Python that has torch and torchvision")
	spin := flag.Bool("spin", false, "let the peers' threads spin while they wait for work")
	flag.Parse()
	args := flag.Args()
	if len(args) == 0 {
		args = []string{"gpt2_6l_256:batch=8,seq=256", "resnet18:batch=4", "mlp_8x1024:batch=256"}
	}
	for _, arg := range args {
		r := race{models: *models, python: *python, rounds: *rounds, threads: *threads, step: *step, spin: *spin}
		if err := r.compare(arg); err != nil {
			fmt.Fprintln(os.Stderr, "forward:", arg+":", err)
			os.Exit(1)
		}
	}
}

// race says how runtimes are compared.
type race struct {
	models, python  string
	rounds, threads int
	step, spin      bool
}

// settle is the pause before each step if threads may spin: the step before may leave some
// spinning.
const settle = 100 * time.Millisecond

// took is the time of a step, in milliseconds: on the clock, and on all processors together.
type took struct{ wall, cpu float64 }

// runner takes steps. A step returns the first element of output 0, too.
type runner struct {
	name  string
	step  func() (t took, out float64, err error)
	close func()
	times []took
	out   float64
}

func (r race) compare(arg string) error {
	name, dims, _ := strings.Cut(arg, ":")
	env := symbolic.Env{}
	for part := range strings.SplitSeq(dims, ",") {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return err
		}
		env[key] = n
	}
	dir, err := os.MkdirTemp("", "forward")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	runners, err := r.start(name, dir, env)
	if err != nil {
		return err
	}
	for round := range r.rounds + 2 { // two rounds of warm-up
		for _, p := range runners {
			if r.spin {
				time.Sleep(settle)
			}
			t, out, err := p.step()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if p.out = out; round >= 2 {
				p.times = append(p.times, t)
			}
		}
	}
	for _, p := range runners {
		p.close()
	}
	if err := table(arg, runners); err != nil {
		return err
	}
	return agree(runners)
}

func (r race) start(name, dir string, env symbolic.Env) ([]*runner, error) {
	file := filepath.Join(r.models, name, "model.onnx")
	own, err := newOwn(file, dir, env, r.threads, r.step)
	if err != nil {
		return nil, err
	}
	runners := []*runner{own}
	here, threads := "bench/forward", strconv.Itoa(r.threads)
	ort := []string{"node", filepath.Join(here, "peer_ort.mjs"), file, dir, threads}
	torch := []string{r.python, filepath.Join(here, "peer_torch.py"), name, dir, threads}
	if r.step {
		ort[2] = filepath.Join(dir, "train.onnx")
		torch = append(torch, "step")
	}
	for _, p := range []struct {
		name string
		args []string
	}{{"ONNX Runtime", ort}, {"PyTorch", torch}} {
		peer, err := newPeer(p.name, p.args, r.environment())
		if err != nil {
			fmt.Fprintf(os.Stderr, "forward: %s is left out: %v\n", p.name, err)
			continue
		}
		runners = append(runners, peer)
	}
	return runners, nil
}

// environment returns the variables for peers: PyTorch's products have threads of their own, and
// OpenMP's threads spin unless told not to.
func (r race) environment() []string {
	env := append(os.Environ(), "OPENBLAS_NUM_THREADS="+strconv.Itoa(r.threads))
	if r.spin {
		return append(env, "BENCH_SPIN=1")
	}
	return append(env, "OMP_WAIT_POLICY=PASSIVE")
}

// agree reports peers whose first output differs from memopt's: they did not compute the same.
func agree(runners []*runner) error {
	own := runners[0]
	for _, r := range runners[1:] {
		if !(math.Abs(r.out-own.out) <= 1e-3*math.Abs(own.out)) {
			return fmt.Errorf("%s gives %g, memopt %g: they do not compute the same", r.name, r.out, own.out)
		}
	}
	return nil
}

// newOwn opens a session in this process and writes its inputs, and the training graph, for the
// peers.
func newOwn(file, dir string, env symbolic.Env, threads int, step bool) (*runner, error) {
	m, err := memopt.Open(file, memopt.Options{Dims: env, Strict: true})
	if err != nil {
		return nil, err
	}
	if step {
		if m, _, err = m.Differentiate(autograd.Options{}, nil); err != nil {
			return nil, err
		}
		if err := onnx.WriteFile(filepath.Join(dir, "train.onnx"), m.Model, onnx.Options{}); err != nil {
			return nil, err
		}
	}
	s, err := executor.Open(context.Background(), m.Model, m.Types, cpu.Device{},
		executor.Options{Threads: threads, Dims: env})
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s: planned arena %.1f MiB\n", filepath.Base(filepath.Dir(file)), float64(s.Prediction().Arena)/(1<<20))
	if err := feed(s, m.Model, dir, env); err != nil {
		return nil, err
	}
	take := func() (took, float64, error) {
		before := processorTime()
		t0 := time.Now()
		err := s.Run(context.Background())
		t := took{wall: milliseconds(time.Since(t0)), cpu: milliseconds(processorTime() - before)}
		if err != nil {
			return t, 0, err
		}
		return t, float64(executor.Of[float32](s.Output(0))[0]), nil
	}
	return &runner{name: "memopt", step: take, close: func() { s.Close(); m.Close() }}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type item struct {
	Name  string `json:"name"`
	Numpy string `json:"numpy"`
	Shape []int  `json:"shape"`
	File  string `json:"file"`
}

var numpyNames = map[graph.DType]string{graph.Float32: "float32", graph.Int64: "int64", graph.Int32: "int32",
	graph.Bool: "bool", graph.Float64: "float64"}

func feed(s *executor.Session, m *graph.Model, dir string, env symbolic.Env) error {
	filler := dataset.NewFiller(m.Graph, env, 1)
	var items []item
	for i, d := range m.Graph.Inputs {
		name := m.Graph.Values[d.Value].Name
		t, err := filler.Fill(d.Value)
		if err != nil {
			return err
		}
		if err := s.SetInput(name, t); err != nil {
			return err
		}
		it := item{name, numpyNames[t.DType], append([]int{}, t.Shape...), fmt.Sprintf("%d.bin", i)}
		if err := os.WriteFile(filepath.Join(dir, it.File), t.Data, 0o666); err != nil {
			return err
		}
		items = append(items, it)
	}
	data, err := json.Marshal(items)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), data, 0o666)
}

// newPeer starts another runtime's process.
func newPeer(name string, args, env []string) (*runner, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		return nil, fmt.Errorf("its process ended with %v", cmd.Wait())
	}
	step := func() (t took, first float64, err error) {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return t, 0, err
		}
		if !lines.Scan() {
			return t, 0, io.ErrUnexpectedEOF
		}
		_, err = fmt.Sscan(lines.Text(), &t.wall, &t.cpu, &first)
		return t, first, err
	}
	return &runner{name: name, step: step, close: func() { in.Close(); cmd.Wait() }}, nil
}

// table prints times, and how many times as long memopt takes: the median over rounds of the
// ratio of steps that ran next to each other.
func table(arg string, runners []*runner) error {
	own := runners[0].times
	fmt.Printf("%s, %d rounds\n", arg, len(own))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "runtime\tmin ms\tmedian ms\tprocessor min ms\tmedian ms\tmemopt takes ×\tof processors ×\tloss\t")
	wall, cpu := func(t took) float64 { return t.wall }, func(t took) float64 { return t.cpu }
	for _, r := range runners {
		walls, cpus := column(r.times, wall), column(r.times, cpu)
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%.6f\t\n", r.name, slices.Min(walls), median(walls),
			slices.Min(cpus), median(cpus), paired(column(own, wall), walls), paired(column(own, cpu), cpus), r.out)
	}
	return w.Flush()
}

func column(times []took, of func(took) float64) []float64 {
	x := make([]float64, len(times))
	for i, t := range times {
		x[i] = of(t)
	}
	return x
}

// paired returns the median of a[i]/b[i].
func paired(a, b []float64) float64 {
	x := make([]float64, len(a))
	for i := range x {
		x[i] = a[i] / b[i]
	}
	return median(x)
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
