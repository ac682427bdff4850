package main

import (
	"os"

	"github.com/spf13/cobra"

	"memopt/doctor"
	"memopt/report"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine and its environment do to memory and speed",
		Long: `doctor looks at cores, quotas and limits of memory, at huge pages, at variables
that hold libraries back, at which libraries there are and why others are not,
and at the settings of glibc's allocator and of ONNX Runtime. Each finding has
its value, its effect, what to do, and where that is written. It changes
nothing, and exits with 0 whatever it finds.`,
		Example: `  memopt doctor
        what slows this machine down, and what costs memory
  memopt doctor -O json
        the same for scripts: "slows" counts what costs time`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.doctor() },
	}
}

func (a *app) doctor() error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	path, err := os.Executable()
	if err != nil {
		return &exitError{exitInternal, err}
	}
	m := doctor.This()
	m.Env = a.env
	runtime := ortProgram(path)
	m.Libraries = doctor.FindLibraries(a.ctx, &runtime)
	return m.Report(a.out, format, m.Examine())
}
