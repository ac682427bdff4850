package symbolic_test

import (
	"flag"
	"os"
	"testing"
)

// Properties are cheap here, so they run on more cases than rapid's default, unless the command
// line says otherwise. A failure prints its seed.
func TestMain(m *testing.M) {
	flag.Parse()
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "2000", "rapid.nofailfile": "true"} {
		if !set[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}
