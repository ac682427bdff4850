// Package stages has the checks that scripts/gpu-verify runs on a machine with a GPU. A stage is a
// list of checks that takes less than 8 minutes; it runs programs that were built elsewhere, above
// all memopt, and records their answers.
package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stage is a list of checks.
type stage struct {
	name, doc string
	run       func(*runner)
}

// all lists the stages in order: each relies on the earlier ones.
var all = []stage{
	{"env", "the card, its driver and the libraries that are found", runEnv},
	{"kernels", "the device's tests: every kernel against the CPU's, and the parts that kernels are made of",
		runKernels},
	{"sanitizer-memcheck", "compute-sanitizer on the kernels: addresses", sanitizer("memcheck")},
	{"sanitizer-racecheck", "compute-sanitizer on the kernels: shared memory", sanitizer("racecheck")},
	{"sanitizer-initcheck", "compute-sanitizer on the kernels: memory that was never written", sanitizer("initcheck")},
	{"models", "verify of every model at levels 0, 1 and 2, and its outputs and gradients beside PyTorch's", runModels},
	{"budgets", "verify at 80, 60 and 40 % of the peak, planned and measured bytes, the largest batch under a limit",
		runBudgets},
	{"oom", "behaviour when memory is short", runOOM},
	{"leaks", "the device's memory over 1,000 steps and over sessions", runLeaks},
	{"graphs", "captured steps give the results of other steps", runGraphs},
	{"bench-gpt2", "gpt2_124m, float32, beside PyTorch", benchGPT2(f32)},
	{"bench-gpt2-tf32", "the same with TF32", benchGPT2(tf32)},
	{"bench-gpt2-bf16", "the same in bfloat16", benchGPT2(bf16)},
	{"bench-resnet50", "resnet50, float32, beside PyTorch", runBenchResNet},
	{"bench-recompute", "the cost of recomputation, predicted and measured", runBenchRecompute},
}

// options are the command line's.
type options struct {
	python  string // the Python that may have PyTorch
	bundle  string // folder of the programs
	models  string // folder of the models
	out     string // folder of the records
	backend string // of memopt: cuda, or its stand-in in tests
	toy     bool   // small sizes, for tests
}

// runner runs the checks of a stage.
type runner struct {
	options
	ctx  context.Context
	rec  *Record
	tmp  string // a folder for files of the stage
	lost error  // a record could not be written
}

// row records a check's outcome, unless the stage is being stopped: the output of a killed program
// has no meaning.
func (r *runner) row(check string, result Result, note string, figures ...Figure) {
	if r.ctx.Err() != nil {
		return
	}
	r.rec.Rows = append(r.rec.Rows, Row{Check: check, Result: result, Note: note, Figures: figures})
	r.rec.Seconds = time.Since(r.rec.Started).Seconds()
	if err := r.rec.write(r.out); err != nil {
		r.lost = err
	}
}

// judge records a pass if ok, otherwise a failure with the note.
func (r *runner) judge(check string, ok bool, note string, figures ...Figure) {
	if ok {
		r.row(check, Pass, "", figures...)
		return
	}
	r.row(check, Fail, note, figures...)
}

// runStage runs a stage and writes its record.
func runStage(ctx context.Context, s *stage, o options) error {
	tmp, err := os.MkdirTemp("", "gpu-verify")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r := &runner{
		options: o, ctx: ctx, tmp: tmp,
		rec: &Record{Schema: Schema, Stage: s.name, Backend: o.backend, Started: time.Now().UTC().Truncate(time.Second),
			Rows: []Row{}},
	}
	if err := r.rec.write(o.out); err != nil {
		return err
	}
	s.run(r)
	r.rec.Finished = ctx.Err() == nil
	r.rec.Seconds = time.Since(r.rec.Started).Seconds()
	if err := r.rec.write(o.out); err != nil {
		return err
	}
	return r.lost
}

// commandLimit ends a program that hangs before the script ends the stage.
const commandLimit = 400 * time.Second

// answer is the outcome of a program.
type answer struct {
	code   int // -1 if it could not be started, or was stopped
	stdout []byte
	stderr string
	took   time.Duration
}

// why is the last line that a program wrote to its error stream, or how it ended.
func (a *answer) why() string {
	lines := strings.Split(strings.TrimSpace(a.stderr), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return strings.TrimPrefix(last, "memopt: ")
	}
	return fmt.Sprintf("exit code %d", a.code)
}

// exec runs a program in a folder with additional environment variables.
func (r *runner) exec(dir string, env []string, name string, args ...string) *answer {
	ctx, cancel := context.WithTimeout(r.ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second // children may keep its output open
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	a := &answer{stdout: stdout.Bytes(), stderr: stderr.String(), took: time.Since(start)}
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		a.code, a.stderr = -1, fmt.Sprintf("%s was stopped after %.0f s", filepath.Base(name), a.took.Seconds())
	case errors.As(err, &exit):
		a.code = exit.ExitCode()
	case err != nil:
		a.code, a.stderr = -1, err.Error()
	}
	return a
}

// memopt runs memopt.
func (r *runner) memopt(args ...string) *answer {
	return r.exec("", nil, filepath.Join(r.bundle, "bin", "memopt"), append(args, "-q")...)
}

// onDevice runs a verb of memopt on the device and reads its report into v.
func (r *runner) onDevice(v any, verb, file string, args ...string) *answer {
	a := r.memopt(append([]string{verb, file, "-e", r.backend, "-O", "json"}, args...)...)
	if a.code == 0 {
		if err := json.Unmarshal(a.stdout, v); err != nil {
			a.code, a.stderr = -1, "memopt's report cannot be read: "+err.Error()
		}
	}
	return a
}

// runReport is the part of the report of memopt run that the checks look at.
type runReport struct {
	Peak struct {
		Planned    int64 `json:"arena_bytes"`
		Measured   int64 `json:"measured_arena_bytes"`
		Persistent int64 `json:"persistent_bytes"`
		Reserved   int64 `json:"device_bytes"` // of the arena
		Growth     int64 `json:"device_growth_bytes"`
		Weights    int64 `json:"device_weights_bytes"`
	} `json:"peak"`
	Time struct {
		Min    float64 `json:"min"`
		Median float64 `json:"median"`
	} `json:"time_ms"`
	OnHost      map[string]int `json:"on_host"`
	NotCaptured string         `json:"not_captured"`
}

// verifyReport is that of memopt verify.
type verifyReport struct {
	Equal     bool      `json:"equal"`
	Baseline  runReport `json:"baseline"`
	Planned   runReport `json:"planned"`
	Saved     int64     `json:"saved_bytes"`
	Slowdown  float64   `json:"slowdown"`
	Predicted *float64  `json:"predicted_slowdown"`
	Profile   *string   `json:"profile"`
}
