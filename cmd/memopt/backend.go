package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/executor/cuda/driver"
	"memopt/executor/null"
)

// backends are the devices of -e that are open; a GPU is opened when it is first asked for, and
// stays open.
var backends = map[string]executor.Device{"cpu": cpu.Device{}, "null": null.Device{}, ortName: ortDevice{}}

// backend returns the device that a name means.
func backend(name string) (executor.Device, error) {
	if d := backends[name]; d != nil {
		return d, nil
	}
	kind, number, numbered := strings.Cut(name, ":")
	switch {
	case kind == "cuda":
		ordinal, err := strconv.Atoi(number)
		if numbered && (err != nil || ordinal < 0) {
			return nil, usage("--backend %q: wanted cuda, or cuda:N with the number of a GPU, from 0 on", name)
		}
		d, err := openCUDA(ordinal)
		if err != nil {
			return nil, err
		}
		backends[name] = d
		return d, nil
	}
	return nil, usage("--backend %q: wanted cpu, null, cuda or ort", name)
}

// onCPU reports whether plans are made for the CPU where no device is named: for memopt's own
// executor. What ONNX Runtime is given is the file that apply writes, so the plan is that of apply.
func onCPU(d executor.Device) bool { return !virtual(d) && !isORT(d) }

// openCUDA opens a GPU.
func openCUDA(ordinal int) (executor.Device, error) {
	d, err := cuda.Open(ordinal, cuda.Options{})
	missing := (*driver.Missing)(nil)
	switch {
	case errors.As(err, &missing):
		return nil, &exitError{exitMissing, fmt.Errorf("--backend cuda: %w; without a GPU, -e cpu executes and -e null counts memory", err)}
	case err != nil:
		return nil, fmt.Errorf("--backend cuda: %w", err)
	}
	return d, nil
}

// virtual reports whether a device computes nothing.
func virtual(d executor.Device) bool {
	v, ok := d.(executor.Virtual)
	return ok && v.Virtual()
}
