//go:build !amd64

package cpu

var philoxWide = false

func philoxBlocks(*uint32, int, uint64, *philoxStream) { panic("cpu: no assembly") }
