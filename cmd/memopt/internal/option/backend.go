package option

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/executor/cuda/driver"
	"memopt/executor/null"
	"memopt/executor/verify"
)

// Backends are the engines of -e that need not be opened. Tests add doubles of a GPU.
var Backends = map[string]verify.Engine{"cpu": verify.On(cpu.Device{}), "null": verify.On(null.Device{})}

// Engine returns the engine that -e names. A GPU is opened on first use.
func (e *EngineFlags) Engine(a *cli.App) (verify.Engine, error) {
	kind, number, numbered := strings.Cut(e.Backend, ":")
	switch {
	case Backends[e.Backend] != nil:
		return Backends[e.Backend], nil
	case e.Backend == cli.OrtName:
		return OrtEngine(a)
	case kind == "cuda":
		ordinal, err := strconv.Atoi(number)
		if numbered && (err != nil || ordinal < 0) {
			return nil, cli.Usage("--backend %q: wanted cuda, or cuda:N with the number of a GPU, "+
				"counted from 0", e.Backend)
		}
		return openCUDA(ordinal)
	}
	return nil, cli.Usage("--backend %q: wanted cpu, null, cuda or ort", e.Backend)
}

// openCUDA opens a GPU.
func openCUDA(ordinal int) (verify.Engine, error) {
	d, err := cuda.Open(ordinal, cuda.Options{})
	missing := (*driver.Missing)(nil)
	switch {
	case errors.As(err, &missing):
		return nil, &cli.ExitError{Code: cli.ExitMissing,
			Err: fmt.Errorf("--backend cuda: %w; without a GPU, use -e cpu to execute or -e null to "+
				"count memory", err)}
	case err != nil:
		return nil, fmt.Errorf("--backend cuda: %w", err)
	}
	return verify.On(d), nil
}

// OnCPU reports whether plans without a named device are for the CPU, as for memopt's own executor.
// ONNX Runtime gets the file that apply writes, so its plan is that of apply.
func OnCPU(t verify.Traits) bool { return t.Device != nil && !t.Virtual }
