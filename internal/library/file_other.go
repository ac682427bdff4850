//go:build !linux

package library

// File returns "", because only Linux says which file lies at an address.
func File(uintptr) string { return "" }

func foreign(string) string { return "" }
