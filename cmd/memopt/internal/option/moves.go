package option

import (
	"cmp"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/planner"
	"memopt/planner/offload"
)

// LinkOfDevice says which link there is without --link.
const LinkOfDevice = "that of --device, or of the device whose times count"

// Moves reads the flags of values that move to the host. They do so for the sake of a budget, in memopt's own
// runtime; none moves where asked is false. executes is the device whose times count where none is named; "" means
// planner.DefaultProfile.
func (s *SelectionFlags) Moves(a *cli.App, flags *cli.MoveFlags, executes string) (moves memopt.MoveOptions,
	asked bool, err error) {
	o, err := flags.Options()
	if err != nil {
		return moves, false, err
	}
	if o.HostBudget == 0 {
		if o.Link.BytesPerSecond != 0 {
			a.Warn("--link: no value moves without --host-budget, the memory that copies may take on the host")
		}
		return moves, false, nil
	}
	if !flags.Given() {
		if o.Link, err = s.link(a, executes); err != nil {
			return moves, false, err
		}
	}
	if moves = (memopt.MoveOptions{Link: o.Link, HostBudget: o.HostBudget}); !moves.Asked() {
		return memopt.MoveOptions{}, false, nil
	}
	if !s.BudgetFlags.Asks() {
		return moves, false, cli.Usage("--link and --host-budget move values for the sake of a budget: add --budget")
	}
	if s.In == cli.OrtName {
		return moves, false, cli.Usage("--budget-in ort and --link cannot be combined: ONNX Runtime moves no values")
	}
	return moves, true, nil
}

// link is that of the device whose times count.
func (s *SelectionFlags) link(a *cli.App, executes string) (offload.Link, error) {
	d := s.DeviceFlags
	if d.Device = cmp.Or(d.Device, executes); s.ForCPU() {
		d.Device = CpuDevice
	}
	m, err := d.Memory(a)
	if err != nil {
		return offload.Link{}, err
	}
	p := cmp.Or(m.Profile, &planner.DefaultProfile)
	if p.Link == 0 {
		return offload.Link{}, cli.Usage("--host-budget: device %s has no link to a memory of the host: name one with "+
			"--link, such as --link 25GB/s, or another device", p.Name)
	}
	return offload.Link{BytesPerSecond: p.Link}, nil
}

// CheckMoves refuses a strategy that moves no values.
func CheckMoves(s memopt.Strategy) (memopt.Budget, error) {
	b, ok := s.(memopt.Budget)
	if !ok || b.Clusters || b.Runtime {
		return b, cli.Usage("--link and --host-budget are for plans of nodes to a budget in memopt's own runtime")
	}
	return b, nil
}
