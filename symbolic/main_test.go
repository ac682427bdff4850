package symbolic_test

import (
	"flag"
	"os"

	_ "memopt/internal/test/rapidflags"
)

// Properties are cheap here, so they run on more cases than rapid's default, unless the
// environment or the command line says otherwise.
func init() {
	if _, set := os.LookupEnv("RAPID_CHECKS"); set {
		return
	}
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		panic(err)
	}
}
