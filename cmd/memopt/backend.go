package main

import (
	"fmt"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/null"
)

// backends are the devices of -e.
var backends = map[string]executor.Device{"cpu": cpu.Device{}, "null": null.Device{}, ortName: ortDevice{}}

// backend returns the device that a name means.
func backend(name string) (executor.Device, error) {
	if d := backends[name]; d != nil {
		return d, nil
	}
	switch name {
	case "cuda":
		return nil, &exitError{exitMissing, fmt.Errorf("--backend %s: this build of memopt has cpu, null and ort only", name)}
	}
	return nil, usage("--backend %q: wanted cpu, null, cuda or ort", name)
}

// onCPU reports whether plans are made for the CPU where no device is named: for memopt's own executor. What ONNX Runtime is
// given is the file that apply writes, so the plan is that of apply.
func onCPU(d executor.Device) bool { return !virtual(d) && !isORT(d) }

// virtual reports whether a device computes nothing.
func virtual(d executor.Device) bool {
	v, ok := d.(executor.Virtual)
	return ok && v.Virtual()
}
