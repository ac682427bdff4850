//go:build !amd64

package cpu

// These are never called: philoxWide is false.

func keepWordsWide(*uint32, int, uint32)                          { panic("cpu: no assembly") }
func selectScaledWide(_, _ *float32, _ *uint32, _ int, _ float32) { panic("cpu: no assembly") }
func packBytesWide(*uint8, *uint32, int)                          { panic("cpu: no assembly") }
func unpackBytesWide(*uint32, *uint8, int)                        { panic("cpu: no assembly") }
func packBitsWide(_, _ *uint32, _ int)                            { panic("cpu: no assembly") }
