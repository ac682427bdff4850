//go:build linux && (amd64 || arm64) && !nodl

package ort_test

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ebitengine/purego"

	"memopt/executor/ort"
)

// childVariable makes the test program the second process of a Program, and says how it behaves.
const childVariable = "MEMOPT_TEST_ORT_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "":
		os.Exit(m.Run())
	case "kill": // dies as if the system ran out of memory
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "fault": // dies of a fault in C code
		libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
		if err != nil {
			os.Exit(3)
		}
		abort, err := purego.Dlsym(libc, "abort")
		if err != nil {
			os.Exit(3)
		}
		purego.SyscallN(abort)
	case "kill at a step": // dies with work half done
		in, requests, err := os.Pipe()
		if err != nil {
			os.Exit(3)
		}
		go func() {
			lines := bufio.NewScanner(os.Stdin)
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"step"`) {
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
				requests.Write(append(lines.Bytes(), '\n'))
			}
			requests.Close()
		}()
		os.Exit(ort.Serve(in, os.NewFile(3, "answers")))
	case "stranger":
		os.Stderr.WriteString("no such verb\n")
		os.Exit(2)
	}
	os.Exit(ort.Serve(os.Stdin, os.NewFile(3, "answers")))
}

// program starts this test program as a second process.
func program(t *testing.T, how string, env ...string) ort.Program {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return ort.Program{Path: path, Args: []string{path}, Env: append(env, childVariable+"="+how)}
}
