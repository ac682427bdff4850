//go:build !linux || !(amd64 || arm64) || nodl

package ort

import "os"

// Serve has no library to serve in this build.
func Serve(_, out *os.File) int {
	reply(out, answer{Missing: &missing{Reason: "this build of memopt cannot load ONNX Runtime: it needs Linux on " +
		"x86-64 or 64-bit ARM, and no build tag nodl"}})
	return 0
}
