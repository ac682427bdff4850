package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"memopt/internal/caught"
	"memopt/internal/fileio"
)

// Runner runs points.
type Runner struct {
	Grid    *Grid
	Folder  *Folder
	Hasher  *Hasher
	Command []string // the program with its arguments before a verb
	Env     []string
	Threads int  // of each process; 0 means its own default
	Retry   bool // failed points are run again
	Version string
	Said    func(done, total int) // progress; may be nil
	Warn    func(text string)     // of results that are damaged; may be nil

	ids     map[int]string
	mu      sync.Mutex
	done    int
	tried   map[string]bool // with Retry: run by this sweep already
	damaged map[string]bool // whose files cannot be read, which was said
}

// ID is the identity of a point.
func (r *Runner) ID(p *Point) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, ok := r.ids[p.Index]; ok {
		return id, nil
	}
	id, err := r.Hasher.ID(p)
	if err != nil {
		return "", err
	}
	if r.ids == nil {
		r.ids = map[int]string{}
	}
	r.ids[p.Index] = id
	return id, nil
}

// Result is the stored result of a point; nil if it has to be run.
func (r *Runner) Result(p *Point) (*Result, error) {
	id, err := r.ID(p)
	if err != nil {
		return nil, err
	}
	res := r.load(id)
	if res != nil && res.Outcome == Failed && r.Retry && !r.wasTried(id) {
		return nil, nil
	}
	return res, nil
}

// load is the result of a point; nil without a result, or if its file is damaged: then it warns once, the
// point is run again, and the others go on.
func (r *Runner) load(id string) *Result {
	res, err := r.Folder.Load(id)
	if err == nil {
		return res
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damaged == nil {
		r.damaged = map[string]bool{}
	}
	if !r.damaged[id] && r.Warn != nil {
		r.Warn(fmt.Sprintf("%v: the point counts as one without a result", err))
	}
	r.damaged[id] = true
	return nil
}

func (r *Runner) wasTried(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tried[id]
}

// Missing lists the points that have to be run.
func (r *Runner) Missing() (list []*Point, err error) {
	for _, p := range r.Grid.Points {
		res, err := r.Result(p)
		if err != nil {
			return nil, err
		}
		if res == nil {
			list = append(list, p)
		}
	}
	return list, nil
}

// Local runs all missing points, jobs at a time. Points that another sweep has begun are waited for. When
// the context ends, so do the processes, and finished results stay.
func (r *Runner) Local(ctx context.Context, jobs int) error {
	if err := r.Folder.Make(); err != nil {
		return err
	}
	list, err := r.Missing()
	if err != nil {
		return err
	}
	r.done = len(r.Grid.Points) - len(list)
	r.say(0)
	for len(list) > 0 && err == nil {
		before := len(list)
		if list, err = r.round(ctx, list, jobs); err == nil {
			err = ctx.Err()
		}
		if err == nil && len(list) == before {
			err = pause(ctx, heldPause) // all that is left is run by others
		}
	}
	return err
}

// heldPause is how long to wait before looking again at points that others run.
const heldPause = 200 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// round runs points and returns those that others hold.
func (r *Runner) round(ctx context.Context, list []*Point, jobs int) (held []*Point, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan *Point)
	for range min(jobs, len(list)) {
		workers.Go(func() {
			for p := range next {
				e := r.runCaught(ctx, p)
				var locked *fileio.LockedError
				mu.Lock()
				switch {
				case errors.As(e, &locked):
					held = append(held, p)
				case e != nil && err == nil:
					err = e
					stop()
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range list {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- p:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return held, err
}

// runCaught is Run on a goroutine of its own.
func (r *Runner) runCaught(ctx context.Context, p *Point) (err error) {
	defer caught.Panic(&err)
	_, err = r.Run(ctx, p)
	return err
}

// say reports that n further points have ended.
func (r *Runner) say(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	if r.Said != nil {
		r.Said(r.done, len(r.Grid.Points))
	}
}

// Wait is Run for a task of a batch system: it waits for the end of another process that runs the
// point.
func (r *Runner) Wait(ctx context.Context, p *Point) (*Result, error) {
	if err := r.Folder.Make(); err != nil {
		return nil, err
	}
	for {
		res, err := r.Run(ctx, p)
		var locked *fileio.LockedError
		if !errors.As(err, &locked) {
			return res, err
		}
		if err := pause(ctx, heldPause); err != nil {
			return nil, err
		}
	}
}

// Run runs a point that has no result yet, and returns its result; one of the outcome Unfinished is
// not kept. Where another process runs the point, the error is a *fileio.LockedError.
func (r *Runner) Run(ctx context.Context, p *Point) (*Result, error) {
	id, err := r.ID(p)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	lock, err := fileio.TakeLock(r.Folder.lock(id), fmt.Sprintf("process %d on %s", os.Getpid(), host))
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	if res, err := r.Result(p); res != nil || err != nil {
		if err == nil {
			r.say(1)
		}
		return res, err
	}
	res, err := r.execute(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if res.Outcome == Unfinished || ctx.Err() != nil && res.Outcome != Done {
		res.Outcome = Unfinished // also if another program has stopped the process: the other points go on
		return res, ctx.Err()
	}
	if err := r.Folder.save(res); err != nil {
		return nil, err
	}
	r.mu.Lock()
	if r.tried == nil {
		r.tried = map[string]bool{}
	}
	r.tried[id] = true
	r.mu.Unlock()
	r.say(1)
	return res, nil
}

// words of a child's command line.
func (r *Runner) line(p *Point, id string) ([]string, error) {
	args := append(append([]string{}, r.Command...), p.Verb, "--output=json", "--quiet")
	if _, given := p.Flags["threads"]; !given && r.Threads > 0 {
		args = append(args, fmt.Sprintf("--threads=%d", r.Threads))
	}
	if p.Verb == "train" {
		job := r.Folder.Job(id)
		if err := fileio.MakeFolder(filepath.Dir(job)); err != nil {
			return nil, err
		}
		args = append(args, "--out="+job)
		if saved, _ := filepath.Glob(filepath.Join(escapeGlob(job), "checkpoints", "step-*")); len(saved) > 0 {
			args = append(args, "--resume")
		}
	}
	return append(args, p.Args...), nil
}

// escapeGlob makes a path a pattern of itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// execute runs the process of a point.
func (r *Runner) execute(ctx context.Context, p *Point, id string) (*Result, error) {
	args, err := r.line(p, id)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	said := &tail{}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Args[0] = "memopt"
	cmd.Env, cmd.Stdout, cmd.Stderr = r.Env, &out, said
	begin := time.Now()
	waited, err := runChild(ctx, cmd)
	if err != nil {
		return nil, err
	}
	if len(said.data) > 0 {
		if err := fileio.WriteFile(r.Folder.log(id), said.data); err != nil {
			return nil, err
		}
	}
	res := &Result{Schema: PointSchema, ID: id, Verb: p.Verb, Models: p.Models, Dims: p.Dims, Flags: p.Flags,
		Version:   r.Version,
		ElapsedMS: float64(time.Since(begin).Milliseconds()), Error: said.last()}
	res.ExitCode = cmd.ProcessState.ExitCode()
	res.Outcome = outcomeOf(res.ExitCode)
	if res.ExitCode == Killed {
		res.Error = fmt.Sprintf("the process ended with %v; memory may have been short", waited)
	}
	if out.Len() > 0 {
		report, err := brief(out.Bytes())
		if err == nil {
			res.Report = report
		} else if res.Outcome == Done {
			res.Outcome, res.Error = Failed, fmt.Sprintf("its output is not JSON: %v", err)
		}
	}
	if res.Outcome == Done {
		res.Error = ""
	}
	return res, nil
}

// tail keeps the end of the written text.
type tail struct{ data []byte }

// keptTail is how much a tail keeps.
const keptTail = 64 << 10

// Write takes text.
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > 2*keptTail {
		t.data = append([]byte{}, t.data[len(t.data)-keptTail:]...)
	}
	return len(p), nil
}

// last is the last line, without the name of the program.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(t.data)), "\n")
	return strings.TrimPrefix(strings.ToValidUTF8(lines[len(lines)-1], "?"), "memopt: ")
}
