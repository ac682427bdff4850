//go:build !linux

package sweep

import (
	"os"
	"os/exec"
)

// apart leaves the process unchanged: if this one is killed, the point's process goes on to its end.
func apart(*exec.Cmd) {}

// ask ends a process: not every system can ask.
func ask(p *os.Process) { kill(p) }
