package main

import (
	"fmt"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/null"
)

// backends are the devices of -e.
var backends = map[string]executor.Device{"cpu": cpu.Device{}, "null": null.Device{}}

// backend returns the device that a name means.
func backend(name string) (executor.Device, error) {
	if d := backends[name]; d != nil {
		return d, nil
	}
	switch name {
	case "cuda", "ort":
		return nil, &exitError{exitMissing, fmt.Errorf("--backend %s: this build of memopt has cpu and null only", name)}
	}
	return nil, usage("--backend %q: wanted cpu, null, cuda or ort", name)
}

// virtual reports whether a device computes nothing.
func virtual(d executor.Device) bool {
	v, ok := d.(executor.Virtual)
	return ok && v.Virtual()
}
