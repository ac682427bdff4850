package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/executor/cuda/driver"
	"memopt/executor/null"
	"memopt/executor/verify"
)

// backends are the engines of -e that need not be opened. Tests add doubles of a GPU.
var backends = map[string]verify.Engine{"cpu": verify.On(cpu.Device{}), "null": verify.On(null.Device{})}

// engine returns the engine that -e names. A GPU is opened on first use.
func (e *engineFlags) engine(a *app) (verify.Engine, error) {
	kind, number, numbered := strings.Cut(e.backend, ":")
	switch {
	case backends[e.backend] != nil:
		return backends[e.backend], nil
	case e.backend == ortName:
		return a.ortEngine()
	case kind == "cuda":
		ordinal, err := strconv.Atoi(number)
		if numbered && (err != nil || ordinal < 0) {
			return nil, usage("--backend %q: wanted cuda, or cuda:N with the number of a GPU, "+
				"counted from 0", e.backend)
		}
		return openCUDA(ordinal)
	}
	return nil, usage("--backend %q: wanted cpu, null, cuda or ort", e.backend)
}

// openCUDA opens a GPU.
func openCUDA(ordinal int) (verify.Engine, error) {
	d, err := cuda.Open(ordinal, cuda.Options{})
	missing := (*driver.Missing)(nil)
	switch {
	case errors.As(err, &missing):
		return nil, &exitError{exitMissing,
			fmt.Errorf("--backend cuda: %w; without a GPU, use -e cpu to execute or -e null to "+
				"count memory", err)}
	case err != nil:
		return nil, fmt.Errorf("--backend cuda: %w", err)
	}
	return verify.On(d), nil
}

// onCPU reports whether plans without a named device are for the CPU, as for memopt's own executor.
// ONNX Runtime gets the file that apply writes, so its plan is that of apply.
func onCPU(t verify.Traits) bool { return t.Device != nil && !t.Virtual }
