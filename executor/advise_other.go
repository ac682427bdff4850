//go:build unix && !linux

package executor

func advise([]byte) {}
