// Package rapidflags sets the defaults of rapid's flags for the tests that import it: every test
// package that draws with rapid does, and TestRapidFlags in the root holds them to it. It also says
// how many cases a test with a loop of its own draws.
//
// Tests draw a part of their cases, so that CI stays short; MEMOPT_TESTS=all draws all of them, as
// .ci/slow does by hand.
//
// With CI=true the draws start from one fixed seed, so that a failure there comes from the change
// under test; elsewhere each run has a seed of its own, which a failure prints. Failures leave no
// files behind: the seed that is printed repeats them. Flags on the command line and rapid's
// variables (RAPID_SEED, RAPID_NOFAILFILE) count for more.
package rapidflags

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // its flags exist before they are set here
)

// ciSeed is any number but 0, which means a random seed to rapid.
const ciSeed = "20260118"

// fewChecks is the number of cases that rapid draws for a property without MEMOPT_TESTS=all, where it
// draws 100.
const fewChecks = "30"

func init() {
	setDefault("rapid.nofailfile", "RAPID_NOFAILFILE", "true")
	if !All() {
		setDefault("rapid.checks", "RAPID_CHECKS", fewChecks)
	}
	if os.Getenv("CI") == "true" {
		setDefault("rapid.seed", "RAPID_SEED", ciSeed)
	}
}

// setDefault sets a flag before the command line is read, unless the environment has set it.
func setDefault(name, variable, value string) {
	if _, set := os.LookupEnv(variable); set {
		return
	}
	if err := flag.Set(name, value); err != nil {
		panic("rapid has no flag " + name + ": " + err.Error())
	}
}

// All reports whether tests are asked for all of their cases (MEMOPT_TESTS=all) and not for a part.
func All() bool { return os.Getenv("MEMOPT_TESTS") == "all" }

// Cases returns how many of n cases a test draws: all with MEMOPT_TESTS=all, else a quarter, and one at
// least. Thresholds that grow with the number of cases go through it as well.
func Cases(n int) int {
	if All() {
		return n
	}
	return max(1, n/4)
}
