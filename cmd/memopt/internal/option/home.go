package option

import (
	"fmt"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/executor"
	"memopt/view/report"
)

// ReadHome reads the flags of a step whose states lie in a folder, as train reads them: the bytes of the home, and with
// a link the moves of other values, which have what it leaves.
func ReadHome(flags *cli.MoveFlags, folder string) (moves memopt.MoveOptions, budget int64, err error) {
	o, err := flags.Options()
	switch {
	case err != nil:
		return moves, 0, err
	case o.HostBudget == 0:
		return moves, 0, cli.Usage("--host-dir %s: add --host-budget, the bytes that the states may take there, twice "+
			"their size", folder)
	}
	moves.Link = o.Link
	if o.Link.BytesPerSecond > 0 {
		moves.HostBudget = o.HostBudget
	}
	return moves, o.HostBudget, nil
}

// HomeFits refuses states that take more of a home than they may.
func HomeFits(bytes, budget int64) error {
	if bytes <= budget {
		return nil
	}
	return cli.Classify(fmt.Errorf("%w: the states take %s (%d bytes) of --host-dir, twice their size, and "+
		"--host-budget is %s: raise it", executor.ErrOutOfMemory, report.Bytes(bytes), bytes, report.Bytes(budget)))
}

// HomeDevice makes the CPU the device of a step whose states lie in a folder, and refuses others.
func HomeDevice(d *DeviceFlags) error {
	if d.Device == "" {
		d.Device = CpuDevice
	}
	if d.Device != CpuDevice {
		return cli.Usage("--host-dir and --device %s cannot be combined: its states are in a memory of its own: take "+
			"--device cpu", d.Device)
	}
	return nil
}
