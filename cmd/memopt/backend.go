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

// backends are the engines of -e that need no opening. Tests add doubles of a GPU.
var backends = map[string]verify.Engine{"cpu": verify.On(cpu.Device{}), "null": verify.On(null.Device{})}

// engine returns what -e names. A GPU is opened when it is first asked for.
func (e *execFlags) engine(a *app) (verify.Engine, error) {
	kind, number, numbered := strings.Cut(e.backend, ":")
	switch {
	case backends[e.backend] != nil:
		return backends[e.backend], nil
	case e.backend == ortName:
		return a.ortEngine()
	case kind == "cuda":
		ordinal, err := strconv.Atoi(number)
		if numbered && (err != nil || ordinal < 0) {
			return nil, usage("--backend %q: wanted cuda, or cuda:N with the number of a GPU, from 0 on", e.backend)
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
			fmt.Errorf("--backend cuda: %w; without a GPU, -e cpu executes and -e null counts memory", err)}
	case err != nil:
		return nil, fmt.Errorf("--backend cuda: %w", err)
	}
	return verify.On(d), nil
}

// onCPU reports whether plans are made for the CPU where no device is named: for memopt's own
// executor. What ONNX Runtime is given is the file that apply writes, so the plan is that of apply.
func onCPU(t verify.Traits) bool { return t.Device != nil && !t.Virtual }
