// Command testreport reads what go test -json prints and writes what a person wants to see of it: a
// line for each package, the output of what failed, and what was skipped with its reason. It ends
// with 1 where a test failed, and, with CI=true, where one was skipped: what a test needs is
// installed there. Only the sample data beside the repository and NVIDIA's assembler may be
// missing.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// What marks the reasons of tests that need the data beside the repository, which a clone does not
// have, or NVIDIA's assembler, which is no free software.
const samples, assembler = "../shared/", "ptxas"

func main() {
	in := bufio.NewReader(os.Stdin)
	output := map[string][]string{} // by package and test
	failed, skipped := 0, 0
	for {
		line, err := in.ReadString('\n')
		if line == "" && err != nil {
			break
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Print(line) // of the build, or of another program
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if e.Test == "" && e.Action == "output" && !strings.HasPrefix(e.Output, "=== ") && e.Output != "PASS\n" ||
				e.Action == "build-output" {
				fmt.Print(e.Output)
				continue
			}
			output[key] = append(output[key], e.Output)
		case "pass":
			delete(output, key)
		case "fail":
			if e.Test != "" {
				failed++
				fmt.Print(strings.Join(output[key], ""))
			}
			delete(output, key)
		case "skip":
			if e.Test == "" {
				continue // a package without tests
			}
			reason := strings.Join(output[key], "")
			if !strings.Contains(reason, samples) && !strings.Contains(reason, assembler) {
				skipped++
			}
			fmt.Print(reason)
			delete(output, key)
		}
	}
	switch {
	case failed > 0:
		os.Exit(1)
	case skipped > 0 && os.Getenv("CI") == "true":
		fmt.Printf("%d tests were skipped: install what they name\n", skipped)
		os.Exit(1)
	}
}
