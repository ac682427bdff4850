package sweep

import (
	"os"
	"os/exec"
	"syscall"
)

// apart puts a process into a group of its own, which dies with this one.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// ask asks a process to end.
func ask(p *os.Process) { _ = p.Signal(syscall.SIGTERM) } // it may have ended
