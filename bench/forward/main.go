// Command forward times forward graphs in memopt beside stock ONNX Runtime and PyTorch on the same
// machine: one process each, steps taken in turn, so that what disturbs the machine disturbs all.
//
//	go run ./bench/forward -rounds 20 -threads 2 gpt2_6l_256:batch=8,seq=256
//
// Peers that are not installed are left out and said so. See bench/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/symbolic"
)

func main() {
	step := flag.Bool("step", false, "a whole training step: forward and backward")
	rounds := flag.Int("rounds", 15, "steps of each runtime")
	threads := flag.Int("threads", 2, "threads of each runtime")
	models := flag.String("models", "../shared/models", "folder of the models")
	python := flag.String("python", "/usr/bin/python3", "the Python that has torch and onnx")
	flag.Parse()
	args := flag.Args()
	if len(args) == 0 {
		args = []string{"gpt2_6l_256:batch=8,seq=256", "resnet18:batch=4", "mlp_8x1024:batch=256"}
	}
	for _, arg := range args {
		if err := compare(arg, *models, *python, *rounds, *threads, *step); err != nil {
			fmt.Fprintln(os.Stderr, "forward:", arg+":", err)
			os.Exit(1)
		}
	}
}

// settle is the pause before each step.
const settle = 100 * time.Millisecond

// runner takes one step and returns its milliseconds and the first element of output 0.
type runner struct {
	name  string
	step  func() (ms, out float64, err error)
	close func()
	times []float64
	out   float64
}

func compare(arg, models, python string, rounds, threads int, step bool) error {
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
	file := filepath.Join(models, name, "model.onnx")
	dir, err := os.MkdirTemp("", "forward")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	runners, err := start(file, dir, python, env, threads, step)
	if err != nil {
		return err
	}
	for round := range rounds + 2 { // two rounds of warm-up
		for _, r := range runners {
			// The one before may leave threads that spin for a while in case more work comes.
			time.Sleep(settle)
			ms, out, err := r.step()
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			if r.out = out; round >= 2 {
				r.times = append(r.times, ms)
			}
		}
	}
	for _, r := range runners {
		r.close()
	}
	return table(arg, runners)
}

func start(file, dir, python string, env symbolic.Env, threads int, step bool) ([]*runner, error) {
	own, params, err := newOwn(file, dir, env, threads, step)
	if err != nil {
		return nil, err
	}
	runners := []*runner{own}
	here := "bench/forward"
	ortFile, torchArgs := file, []string{python, filepath.Join(here, "peer_torch.py"), file, dir, strconv.Itoa(threads)}
	if step {
		ortFile = filepath.Join(dir, "train.onnx")
		torchArgs = append(append(torchArgs, "step"), params...)
	}
	for _, p := range []struct {
		name string
		args []string
	}{
		{"ONNX Runtime", []string{"node", filepath.Join(here, "peer_ort.mjs"), ortFile, dir, strconv.Itoa(threads)}},
		{"PyTorch", torchArgs},
	} {
		r, err := newPeer(p.name, p.args)
		if err != nil {
			fmt.Fprintf(os.Stderr, "forward: %s is left out: %v\n", p.name, err)
			continue
		}
		runners = append(runners, r)
	}
	return runners, nil
}

// newOwn opens a session in this process and writes its inputs, and the training graph, for the peers.
func newOwn(file, dir string, env symbolic.Env, threads int, step bool) (*runner, []string, error) {
	m, closer, err := onnx.Open(file)
	if err != nil {
		return nil, nil, err
	}
	if err := graph.RunPasses(m, graph.Pass{Name: "inline", Run: graph.InlineFunctions}); err != nil {
		return nil, nil, err
	}
	types, err := op.Infer(m)
	if err != nil {
		return nil, nil, err
	}
	var params []string
	if step {
		j, err := autograd.Differentiate(m, autograd.Options{})
		if err != nil {
			return nil, nil, err
		}
		m, types, params = j.Model, j.Types, j.Wrt
		if err := onnx.WriteFile(filepath.Join(dir, "train.onnx"), m, onnx.Options{}); err != nil {
			return nil, nil, err
		}
	}
	s, err := executor.Open(m, types, cpu.Device{}, executor.Options{Threads: threads, Dims: env})
	if err != nil {
		return nil, nil, err
	}
	fmt.Printf("%s: planned arena %.1f MiB\n", filepath.Base(filepath.Dir(file)), float64(s.Prediction().Arena)/(1<<20))
	if err := feed(s, m, dir, env); err != nil {
		return nil, nil, err
	}
	take := func() (float64, float64, error) {
		t0 := time.Now()
		err := s.Run(context.Background())
		took := time.Since(t0)
		if err != nil {
			return 0, 0, err
		}
		return float64(took.Microseconds()) / 1000, float64(executor.Of[float32](s.Output(0))[0]), nil
	}
	return &runner{name: "memopt", step: take, close: func() { s.Close(); closer.Close() }}, params, nil
}

type item struct {
	Name  string `json:"name"`
	Numpy string `json:"numpy"`
	Shape []int  `json:"shape"`
	File  string `json:"file"`
}

var numpyNames = map[graph.DType]string{graph.Float32: "float32", graph.Int64: "int64", graph.Int32: "int32", graph.Bool: "bool", graph.Float64: "float64"}

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
func newPeer(name string, args []string) (*runner, error) {
	cmd := exec.Command(args[0], args[1:]...)
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
	step := func() (ms, first float64, err error) {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return 0, 0, err
		}
		if !lines.Scan() {
			return 0, 0, io.ErrUnexpectedEOF
		}
		_, err = fmt.Sscan(lines.Text(), &ms, &first)
		return ms, first, err
	}
	return &runner{name: name, step: step, close: func() { in.Close(); cmd.Wait() }}, nil
}

func table(arg string, runners []*runner) error {
	fmt.Printf("%s, %d rounds\n", arg, len(runners[0].times))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "runtime\tmin ms\tmedian ms\tmemopt is × its median\tloss\t")
	own := median(runners[0].times)
	for _, r := range runners {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t%.6f\t\n", r.name, slices.Min(r.times), median(r.times), own/median(r.times), r.out)
	}
	return w.Flush()
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
