package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// notFiles are the flags with a text for a value that names no file.
var notFiles = []string{"check", "growth", "weight-type", "allocator", "allocator-conf",
	"output", "color", "level", "probe", "order", "clone-bytes", "budget", "budget-in",
	"budget-for", "select", "solver", "chunk", "time-limit", "anchor", "external-data",
	"format", "loss-scale", "optimizer", "backend", "init", "mem-limit", "mem-pattern", "arena-extend-strategy",
	"ort-opt", "ort-arena", "ort-execution", "cudnn-conv-algo-search",
	"cudnn-conv-use-max-workspace", "bitwise", "by", "capacity", "batch",
	"on", "image", "claim", "gpu", "reserve", "precision", "vary", "max-overhead",
	"on-nan", "resume", "reduce", "runtime",
	"bucket-size", "emit", "host-budget", "host-dir", "link", "lr-scheduler", "data-format",
	"token-type", "blocks", "labels", "record", "last-batch", "adjust-lr"}

// notReading are the verbs whose arguments are no files.
var notReading = []string{"ops", "examples", "devices", "version", "exit-codes", "environment", "completion", "help",
	"config", "doctor", "man", cli.OrtChildVerb}

// TestFileFlags: the flags and verbs that read or write files are known to be such, so that none
// overwrites an input.
func TestFileFlags(t *testing.T) {
	root := command((&cli.App{}))
	seen := map[string]bool{}
	check := func(f *pflag.Flag) {
		known := 0
		for _, list := range [][]string{cli.InputFlags, cli.OutputFlags, notFiles} {
			if slices.Contains(list, f.Name) {
				known++
			}
		}
		if f.Value.Type() == "string" {
			require.Equal(t, 1, known,
				"--%s: is it a file? Then inputFlags or outputFlags of files.go has it, else notFiles", f.Name)
		}
		seen[f.Name] = true
	}
	root.PersistentFlags().VisitAll(check)
	for _, cmd := range root.Commands() {
		require.NotEqual(t, cli.ReadsFiles[cmd.Name()] != "", slices.Contains(notReading, cmd.Name()),
			"%s: do its arguments name files? Then readsFiles has it, else notReading", cmd.Name())
		cmd.Flags().VisitAll(check)
		seen[cmd.Name()] = true
	}
	for _, list := range [][]string{cli.InputFlags, cli.OutputFlags} {
		for _, name := range list {
			require.True(t, seen[name], name)
		}
	}
	for name := range cli.ReadsFiles {
		require.True(t, seen[name], name)
	}
}
