package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"memopt": main})
}

// TestScripts runs the command lines of testdata/script. A script that needs sample models
// beside the repository says [samples]; without them the condition is false and
// the script skips. UPDATE_SCRIPTS=1 rewrites the expected output.
func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("../../../shared/models")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SAMPLES", samples)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "samples" {
				_, err := os.Stat(samples)
				return err == nil, nil
			}
			return false, nil
		},
	})
}
