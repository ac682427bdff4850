package answercmd

import (
	"github.com/spf13/cobra"

	"memopt/cmd/memopt/internal/cli"
	"memopt/configs"
	"memopt/planner/device"
	"memopt/view/report"
)

func Devices(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "devices [NAME...]",
		Short: "List the built-in device profiles: memory, reserve, rates",
		Long: `devices lists the profiles that --device takes by name: the memory of a device,
the reserve that no step can have, and its rates for estimates of times. -O
json has all figures, and where they are from; a file of that form is a
profile, too (--device FILE.json).`,
		Example: `  memopt devices                       all of them
  memopt devices h100 a100 -O json     the figures of two, and their sources`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return listDevices(a, args) },
	}
}

// listDevices lists device profiles; no names: all of them.
func listDevices(a *cli.App, names []string) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if len(names) == 0 {
		names = configs.DeviceNames()
	}
	var list []*device.Profile
	for _, name := range names {
		p, err := configs.LoadDevice(name)
		if err != nil {
			return cli.Usage("%w", err)
		}
		list = append(list, p)
	}
	return report.Devices(a.Out, format, list)
}
