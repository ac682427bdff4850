//go:build linux && (amd64 || arm64) && !nodl

package ort

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
)

// double is a library that stands in for ONNX Runtime: it counts, writes down, and fails when it is
// told to (testdata/fake.c).
type double struct {
	*Library
	reset   func(fail int32)
	alive   func() int32
	kind    func(int32)
	dtype   func(int32)
	crooked func(int32)
	trail   func() string
}

// buildDouble compiles the library, or skips.
func buildDouble(t *testing.T) string {
	t.Helper()
	var cc string
	for _, name := range []string{"cc", "gcc", "clang", "clang-14"} {
		if path, err := exec.LookPath(name); err == nil {
			cc = path
			break
		}
	}
	if cc == "" {
		t.Skip("a library that stands in for ONNX Runtime needs a C compiler, cc or clang-14, which is missing: " +
			"apt-get install gcc")
	}
	library := filepath.Join(t.TempDir(), "libonnxruntime.so")
	out, err := exec.Command(cc, "-shared", "-fPIC", "-w", "-o", library, "testdata/fake.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return library
}

func openDouble(t *testing.T) *double {
	t.Helper()
	path := buildDouble(t)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	d := &double{}
	for name, f := range map[string]any{"fake_reset": &d.reset, "fake_alive": &d.alive, "fake_kind": &d.kind,
		"fake_dtype": &d.dtype, "fake_crooked": &d.crooked, "fake_trail": &d.trail} {
		purego.RegisterLibFunc(f, handle, name)
	}
	for i, name := range []string{"CreateEnv", "DisableTelemetryEvents"} {
		d.reset(int32(i + 1))
		_, err = Open([]string{path})
		require.ErrorContains(t, err, path+": ONNX Runtime: "+name+" fails")
		require.Zero(t, d.alive())
	}
	d.reset(0)
	d.Library, err = Open([]string{path})
	require.NoError(t, err)
	require.Equal(t, "version 23\nenv 3 memopt\nno telemetry\n", d.trail())
	require.Equal(t, []string{path, "1.99.0-fake"}, []string{d.Path(), d.Version()})
	return d
}

// everyOption sets all that a session can be told.
var everyOption = Options{Optimization: Basic, Threads: 3, InterOp: 2, Parallel: true, NoPattern: true, MemLimit: 4096,
	Exact: true, Split: true, Config: []string{"a.b=c=d"}}

// use makes a session, runs it once, and returns the first output.
func (d *double) use(o Options) (*executor.Tensor, Stats, error) {
	s, err := d.NewSessionBytes([]byte("model"), o)
	if err != nil {
		return nil, Stats{}, err
	}
	defer s.Close()
	f, err := s.Feed([]Named{{"x", executor.NewTensor[float32](graph.Float32, []int{2, 1}, 3, 4)}})
	if err != nil {
		return nil, Stats{}, err
	}
	defer f.Close()
	r, err := s.Run(f)
	if err != nil {
		return nil, Stats{}, err
	}
	defer r.Close()
	t, err := r.Copy(0)
	if err != nil {
		return nil, Stats{}, err
	}
	st, err := s.Stats()
	return t, st, err
}

// TestOptions holds what the library is told to the options.
func TestOptions(t *testing.T) {
	d := openDouble(t)
	const used = "session of 5 bytes\nrun with x\n"
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "level 99\n" + used},
		{Options{Optimization: Disable}, "level 0\n" + used},
		{Options{Optimization: Extended, Config: []string{"k="}}, "level 2\nk=\n" + used},
		{Options{Optimization: All, NoArena: true}, "level 99\nno arena\n" + used},
		{Options{MemLimit: 512},
			"level 99\narena arena_extend_strategy=0\narena max_mem=512\narena " +
				"registered\nsession.use_env_allocators=1\n" + used},
		{everyOption, "level 1\nthreads 3\ninter-op 2\nmode 1\nno pattern\narena arena_extend_strategy=1\narena " +
			"max_mem=4096\narena max_dead_bytes_per_chunk=256\narena registered\n" +
			"session.use_env_allocators=1\na.b=c=d\n" + used},
	} {
		d.reset(0)
		before := d.alive()
		y, st, err := d.use(c.o)
		require.NoError(t, err)
		require.Equal(t, c.want, d.trail())
		require.Equal(t, executor.NewTensor[float32](graph.Float32, []int{2, 1}, 3, 4), y)
		want := Stats{256, 512, 1024, true}
		if c.o.NoArena {
			want = Stats{}
		}
		require.Equal(t, want, st)
		require.Equal(t, before, d.alive(), "all is given back")
	}
	for _, o := range []Options{{Optimization: "most"}, {Threads: -1}, {InterOp: -1}, {MemLimit: -1},
		{NoArena: true, Exact: true}, {Config: []string{"key"}}, {Config: []string{"=v"}},
		{Config: []string{"k=\x00"}}} {
		_, err := d.NewSession("model.onnx", o)
		require.Error(t, err, "%+v", o)
	}
	for text, want := range map[string]Level{"disable": Disable, "basic": Basic, "extended": Extended, "all": All} {
		l, err := ParseLevel(text)
		require.NoError(t, err)
		require.Equal(t, want, l)
	}
	for _, text := range []string{"", "ALL", "99"} {
		_, err := ParseLevel(text)
		require.ErrorContains(t, err, "wanted disable, basic, extended or all")
	}
}

// TestEveryCallFails lets one call after the other fail: each error names it and its phase, and all
// that was made before is given back.
func TestEveryCallFails(t *testing.T) {
	d := openDouble(t)
	phases := map[string]string{}
	before := d.alive()
	for k := int32(1); ; k++ {
		d.reset(k)
		_, _, err := d.use(everyOption)
		require.Equal(t, before, d.alive(), "call %d: %v", k, err)
		if err == nil {
			require.Greater(t, k, int32(25))
			break
		}
		var e *RuntimeError
		require.ErrorAs(t, err, &e, "call %d", k)
		require.Equal(t, 6, e.Code)
		name, ok := strings.CutSuffix(e.Message, "  fails\n")
		require.True(t, ok, e.Message)
		phases[name] = e.Phase
		require.Contains(t, e.Error(), name+" fails")
		require.False(t, e.OutOfMemory())
	}
	for name, phase := range phases {
		want := PhaseCall
		switch name {
		case "CreateSessionFromArray":
			want = PhaseOpen
		case "Run":
			want = PhaseRun
		}
		require.Equal(t, want, phase, name)
	}
	for _, name := range []string{"CreateSessionOptions", "SetIntraOpNumThreads", "CreateArenaCfgV2",
		"CreateAndRegisterAllocator", "AddSessionConfigEntry", "SessionGetInputName", "SessionGetOutputName",
		"AllocatorFree", "CreateAllocator", "CreateTensorWithDataAsOrtValue", "GetTensorTypeAndShape", "GetDimensions",
		"GetTensorMutableData", "AllocatorGetStats"} {
		require.Contains(t, phases, name)
	}
}

// TestOddAnswers takes what no tensor is, types that cannot be exchanged, and counts that are no
// numbers.
func TestOddAnswers(t *testing.T) {
	d := openDouble(t)
	before := d.alive()
	d.kind(2)
	_, _, err := d.use(Options{})
	require.ErrorContains(t, err, `output "y": is a sequence, a map or empty`)
	d.reset(0)
	d.dtype(int32(graph.String))
	_, _, err = d.use(Options{})
	require.ErrorContains(t, err, `output "y": elements of type string cannot be exchanged`)
	d.reset(0)
	d.crooked(1)
	_, st, err := d.use(Options{})
	require.NoError(t, err)
	require.Equal(t, Stats{InUse: 256, Total: 1024}, st, "not known")
	require.Equal(t, before, d.alive())
}

// TestChild answers requests as the second process does, in this one.
func TestChild(t *testing.T) {
	d := openDouble(t)
	dir := t.TempDir()
	files, err := WriteInputs(dir, []Named{{"x", executor.NewTensor[float32](graph.Float32, []int{3}, 1, 2, 3)}})
	require.NoError(t, err)
	c := &child{library: d.Library}
	for _, early := range []request{{}, {Step: &struct{}{}}, {Outputs: &outputsRequest{dir}}} {
		_, err := c.answer(early)
		require.ErrorContains(t, err, "cannot be served now")
	}
	for _, wrong := range []File{{"x", graph.Float32, []int{4}, files[0].Path},
		{"x", graph.Float32, []int{3}, filepath.Join(dir, "none")}} {
		_, err := c.answer(request{Open: &openRequest{"m.onnx", Options{}, []File{wrong}, nil}})
		require.ErrorContains(t, err, `input "x"`)
	}
	d.reset(0)
	a, err := c.answer(request{Open: &openRequest{"m.onnx", Options{}, files, nil}})
	require.NoError(t, err)
	require.Contains(t, d.trail(), "session m.onnx\n")
	require.Equal(t, Stats{256, 512, 1024, true}, a.Opened.Arena)
	require.Positive(t, a.Opened.Resident)
	_, err = c.answer(request{Open: &openRequest{"m.onnx", Options{}, files, nil}})
	require.ErrorContains(t, err, "cannot be served now")
	before := d.alive()
	for range 3 {
		a, err = c.answer(request{Step: &struct{}{}})
		require.NoError(t, err)
		require.Equal(t, Stats{256, 512, 1024, true}, a.Step.Arena)
		require.GreaterOrEqual(t, a.Step.Nanoseconds, int64(0))
		require.Equal(t, before+2, d.alive(), "the outputs of one step")
	}
	a, err = c.answer(request{Outputs: &outputsRequest{dir}})
	require.NoError(t, err)
	require.Len(t, a.Outputs, 2)
	require.Equal(t, File{"z", graph.Float32, []int{3}, filepath.Join(dir, "output_1")}, a.Outputs[1])
	data, err := os.ReadFile(a.Outputs[0].Path)
	require.NoError(t, err)
	require.Equal(t, executor.Memory([]float32{1, 2, 3}), data)
	_, err = c.answer(request{Outputs: &outputsRequest{filepath.Join(dir, "none")}})
	require.ErrorIs(t, err, os.ErrNotExist)
	d.kind(0)
	_, err = c.answer(request{Outputs: &outputsRequest{dir}})
	require.ErrorContains(t, err, `output "y"`)
	d.reset(1)
	_, err = c.answer(request{Step: &struct{}{}})
	require.ErrorContains(t, err, "cannot run the model: Run fails")
	_, err = c.answer(request{Outputs: &outputsRequest{dir}})
	require.ErrorContains(t, err, "cannot be served now", "the step before has been given back")
	require.Equal(t, before, d.alive())
}

// TestFailure keeps what an error is on its way to the other process.
func TestFailure(t *testing.T) {
	require.Equal(t, answer{Missing: &missing{"why"}}, failure(&MissingError{"why"}))
	e := &RuntimeError{Phase: PhaseRun, Code: 2, Message: "m"}
	require.Equal(t, answer{Runtime: e}, failure(e))
	require.Equal(t, answer{Fault: "other"}, failure(errors.New("other")))
	var out bytes.Buffer
	reply(&out, answer{Fault: "f"})
	require.Equal(t, "{\"fault\":\"f\"}\n", out.String())
}

// TestProcessWithDouble runs steps in a second process whose library is the double.
func TestProcessWithDouble(t *testing.T) {
	library := buildDouble(t)
	path, err := os.Executable()
	require.NoError(t, err)
	p, err := Start(t.Context(),
		Program{
			Path: path, Args: []string{path},
			Env: []string{"MEMOPT_TEST_ORT_CHILD=serve", LibraryVariable + "=" + library},
		})
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, Info{Path: library, Version: "1.99.0-fake"}, p.Info())
	dir := t.TempDir()
	x := executor.NewTensor[float32](graph.Float32, []int{1, 2}, 5, 6)
	files, err := WriteInputs(dir, []Named{{"x", x}})
	require.NoError(t, err)
	_, err = p.Open("m.onnx", Options{Threads: -1}, files, nil)
	require.ErrorContains(t, err, "none may be negative")
	_, err = p.Step()
	require.ErrorContains(t, err, "cannot be served now")
	opened, err := p.Open("m.onnx", everyOption, files, nil)
	require.NoError(t, err)
	require.Equal(t, Stats{256, 512, 1024, true}, opened.Arena)
	step, err := p.Step()
	require.NoError(t, err)
	require.Equal(t, Stats{256, 512, 1024, true}, step.Arena)
	out, err := p.Outputs(dir)
	require.NoError(t, err)
	require.Equal(t, []Named{{"y", x}, {"z", x}}, out)
	left, err := filepath.Glob(filepath.Join(dir, "output_*"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = p.Outputs(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "no such file")
	_, err = WriteInputs(filepath.Join(dir, "none"), []Named{{"x", x}})
	require.ErrorIs(t, err, os.ErrNotExist)
}
