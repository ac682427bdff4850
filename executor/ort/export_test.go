package ort

// PID is the second process's, by which the system says what it has open.
func (p *Process) PID() int { return p.cmd.Process.Pid }
