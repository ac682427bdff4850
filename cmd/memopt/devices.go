package main

import (
	"github.com/spf13/cobra"

	"memopt/configs"
	"memopt/planner"
	"memopt/view/report"
)

func (a *app) devicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "devices [NAME...]",
		Short: "List the built-in device profiles: memory, reserve, rates",
		Long: `devices lists the profiles that --device takes by name: the memory of a device,
the reserve that no step can have, and the rates by which times are estimated.
-O json has all figures, and where they are from; a file of that form is a
profile, too (--device FILE.json).`,
		Example: `  memopt devices                       all of them
  memopt devices h100 a100 -O json     the figures of two, and their sources`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return a.devices(args) },
	}
}

// devices lists device profiles; no names: all of them.
func (a *app) devices(names []string) error {
	format, err := report.ParseFormat(a.global.output)
	if err != nil {
		return usage("%w", err)
	}
	if len(names) == 0 {
		names = configs.DeviceNames()
	}
	var list []*planner.Profile
	for _, name := range names {
		p, err := configs.LoadDevice(name)
		if err != nil {
			return usage("%w", err)
		}
		list = append(list, p)
	}
	return report.Devices(a.out, format, list)
}
