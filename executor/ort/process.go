package ort

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"memopt/executor"
	"memopt/internal/cleanup"
	"memopt/internal/library"
)

// Program is the command of the second process: a program that calls Serve with its standard input
// and with file 3.
type Program struct {
	Path string
	Args []string // the program's own name first
	Env  []string // beside the caller's
	// Folder holds the files that are exchanged; "" if there are no files. The process removes it
	// when it ends, so that it is removed even if the caller is killed.
	Folder string
	// Heap is shared with the process as its file 4; nil means no shared heap.
	Heap *Heap
}

// FolderVariable names the folder to the second process.
const FolderVariable = "MEMOPT_ORT_FOLDER"

// noTelemetry keeps the library from sending events about models to its makers: since 1.30 its
// Linux builds write names of nodes and values to a store in the user's cache folder, and logs to
// the folder of temporary files. It is read when the library is loaded. Library.openAt also
// switches off the telemetry of other builds.
const noTelemetry = "ORT_DISABLE_TELEMETRY=1"

// Process is a second process with ONNX Runtime in it. It is used by one goroutine at a time.
type Process struct {
	cmd     *exec.Cmd
	ctx     context.Context
	in      io.WriteCloser
	out     *os.File
	answers *json.Decoder
	said    *headWriter
	info    Info
	doing   string
	ended   error // why the process has ended
	killed  cleanup.Item
	gone    chan struct{} // closed when it has ended
}

// Start starts a process and waits until it has loaded the library. The error is a *MissingError if
// there is no library. The process ends with the context.
func Start(ctx context.Context, program Program) (*Process, error) {
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childOut.Close()
	cmd := exec.CommandContext(ctx, program.Path)
	p := &Process{
		cmd: cmd, ctx: ctx, out: out, answers: json.NewDecoder(out), said: &headWriter{}, doing: "loaded the library",
		gone: make(chan struct{}),
	}
	cmd.Args, cmd.Env = program.Args, slices.Concat(os.Environ(), program.Env,
		[]string{noTelemetry, FolderVariable + "=" + program.Folder})
	cmd.Stderr, cmd.ExtraFiles = p.said, []*os.File{childOut}
	if program.Heap != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, program.Heap.file)
	}
	cmd.WaitDelay = time.Second // of the error stream, which a grandchild could hold open
	if p.in, err = cmd.StdinPipe(); err != nil {
		out.Close()
		return nil, err
	}
	if err := p.start(); err != nil {
		p.in.Close()
		out.Close()
		return nil, fmt.Errorf("cannot start %s for ONNX Runtime: %w", program.Path, err)
	}
	childOut.Close() // so that the answers end with the process
	a, err := p.read()
	if err != nil {
		p.Close()
		return nil, err
	}
	if a.Hello == nil {
		p.Close()
		return nil, fmt.Errorf("%s does not serve ONNX Runtime", program.Path)
	}
	p.info = *a.Hello
	library.Record(library.Opened{Name: "ONNX Runtime", Path: p.info.Path, Doubt: p.info.Doubt})
	return p, nil
}

// start starts the process. To the system, its parent is the thread that started it, whose end
// triggers obey, so that thread is kept alive.
func (p *Process) start() (err error) {
	p.killed, err = cleanup.Make(func() (func(), error) {
		started := make(chan error)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := p.cmd.Start()
			if started <- err; err == nil {
				<-p.gone
			}
		}()
		return func() { p.cmd.Process.Kill() }, <-started
	})
	return err
}

// Memory returns the memory of the process; zeros when it has ended.
func (p *Process) Memory() executor.ProcessMemory {
	if p.ended != nil {
		return executor.ProcessMemory{}
	}
	return executor.ReadProcessMemoryOf(p.cmd.Process.Pid)
}

// Info returns the library that the process uses.
func (p *Process) Info() Info { return p.info }

// Open makes a session of a model's file, with inputs that WriteInputs has written. Without states,
// every step begins with these inputs; with states, those begin with the previous step's results.
func (p *Process) Open(model string, o Options, inputs []File, states []State) (*Opened, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	a, err := p.ask("loaded the model", request{Open: &openRequest{model, o, inputs, states}})
	if err == nil && a.Opened == nil {
		err = errors.New("ONNX Runtime's process gave no answer about the model")
	}
	return a.Opened, err
}

// Step runs the model once.
func (p *Process) Step() (*Step, error) {
	a, err := p.ask("ran a step", request{Step: &struct{}{}})
	if err == nil && a.Step == nil {
		err = errors.New("ONNX Runtime's process gave no answer about the step")
	}
	return a.Step, err
}

// Restart resets all states to their first values, so that the next step is like the first one,
// except for random draws.
func (p *Process) Restart() error {
	a, err := p.ask("set its states back", request{Restart: &struct{}{}})
	if err == nil && !a.Done {
		err = errors.New("ONNX Runtime's process gave no answer about its states")
	}
	return err
}

// Outputs returns the outputs of the last step in the model's order. They travel through a folder.
func (p *Process) Outputs(dir string) ([]Named, error) {
	a, err := p.ask("wrote its outputs", request{Outputs: &outputsRequest{dir}})
	if err != nil {
		return nil, err
	}
	var list []Named
	for _, f := range a.Outputs {
		t := &executor.Tensor{DType: f.DType, Shape: f.Shape}
		if t.Data, err = os.ReadFile(f.Path); err != nil {
			return nil, err
		}
		if err := os.Remove(f.Path); err != nil {
			return nil, err
		}
		list = append(list, Named{f.Name, t})
	}
	return list, nil
}

// Load opens one more model, whose operands lie in the heap (Program.Heap).
func (p *Process) Load(model string, o Options, inputs []Place, states []SharedState,
	outputs []Place) (*Loaded, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	load := &loadRequest{model, o, inputs, states, outputs}
	a, err := p.ask("loaded a model", request{Load: load})
	if err == nil && a.Loaded == nil {
		err = errors.New("ONNX Runtime's process gave no answer about the model")
	}
	return a.Loaded, err
}

// Turn runs a model once that Load opened. Arena.MaxInUse of the answer is the memory of the run, 0
// if it is not known because an earlier run took more.
func (p *Process) Turn(model int) (*Step, error) {
	a, err := p.ask("ran a step", request{Turn: &turnRequest{model}})
	if err == nil && a.Step == nil {
		err = errors.New("ONNX Runtime's process gave no answer about the step")
	}
	return a.Step, err
}

// Unload closes a model that Load opened.
func (p *Process) Unload(model int) error {
	a, err := p.ask("closed a model", request{Unload: &turnRequest{model}})
	if err == nil && !a.Done {
		err = errors.New("ONNX Runtime's process gave no answer about closing a model")
	}
	return err
}

// Close ends the process.
func (p *Process) Close() {
	p.in.Close() // the process ends itself when it reads that
	p.end()
	p.out.Close()
}

// end waits until the process is gone and returns how it ended.
func (p *Process) end() error {
	if p.ended == nil {
		if p.ended = p.cmd.Wait(); p.ended == nil {
			p.ended = errors.New("exit status 0")
		}
		p.killed.Keep()
		close(p.gone)
	}
	return p.ended
}

func (p *Process) ask(doing string, r request) (answer, error) {
	if err := p.ctx.Err(); err != nil {
		return answer{}, err // the process is being killed, but may still answer
	}
	p.doing = doing
	data, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	// A write to a process that is gone fails; the reason shows when its answer is read.
	p.in.Write(append(data, '\n'))
	return p.read()
}

// read reads one answer and returns an error if the answer reports one.
func (p *Process) read() (answer, error) {
	var a answer
	if err := p.answers.Decode(&a); err != nil {
		p.in.Close()
		cause := p.end()
		if err := p.ctx.Err(); err != nil {
			return answer{}, err
		}
		return answer{}, &CrashError{Cause: p.cause(cause), While: p.doing, Said: p.said.lastWords()}
	}
	switch {
	case a.Missing != nil:
		return answer{}, &MissingError{a.Missing.Reason}
	case a.Runtime != nil:
		return answer{}, a.Runtime
	case a.Fault != "":
		return answer{}, errors.New(a.Fault)
	}
	return a, nil
}

// signalLine finds the signal in the output of Go's runtime when a signal raised in C code ends the
// program; the exit status is then 2.
var signalLine = regexp.MustCompile(`(?m)^(?:\[signal )?(SIG[A-Z]+): ([a-z ]+)`)

func (p *Process) cause(err error) string {
	if m := signalLine.FindStringSubmatch(p.said.head.String()); m != nil {
		return fmt.Sprintf("signal %s: %s", m[1], strings.TrimSpace(m[2]))
	}
	return err.Error()
}

// WriteInputs writes inputs for any number of processes into a folder.
func WriteInputs(dir string, inputs []Named) ([]File, error) {
	var files []File
	for i, in := range inputs {
		f := File{
			Name: in.Name, DType: in.Tensor.DType, Shape: in.Tensor.Shape,
			Path: filepath.Join(dir, fmt.Sprintf("input_%d", i)),
		}
		if err := os.WriteFile(f.Path, in.Tensor.Data, 0o600); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// headWriter keeps the beginning of its input. A process that crashes first prints the fault and
// then the stacks of all its goroutines.
type headWriter struct{ head bytes.Buffer }

const headBytes = 16 << 10

// Write keeps the bytes that fit.
func (t *headWriter) Write(data []byte) (int, error) {
	t.head.Write(data[:min(len(data), headBytes-t.head.Len())])
	return len(data), nil
}

// lastWords returns a line or two of it.
func (t *headWriter) lastWords() string {
	const most = 240
	text, _, _ := strings.Cut(t.head.String(), "\n\n") // the rest are stacks
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
