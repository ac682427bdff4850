package option

import (
	"cmp"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/planner/device"
	"memopt/planner/offload"
	"memopt/recompute"
)

// LinkOfDevice says which link there is without --link.
const LinkOfDevice = "that of --device, or of the device whose times count"

// ReadMoves reads the flags of values that move to the host. Without --link, the link is that of the flags' device,
// else of the device that executes; "" means device.Default.
func ReadMoves(a *cli.App, flags *cli.MoveFlags, d DeviceFlags, executes string) (memopt.MoveOptions, error) {
	o, err := flags.Options()
	if err != nil {
		return memopt.MoveOptions{}, err
	}
	if flags.Given() {
		return memopt.MoveOptions{Link: o.Link, HostBudget: o.HostBudget}, nil
	}
	d.Device = cmp.Or(d.Device, executes)
	m, err := d.Memory(a)
	if err != nil {
		return memopt.MoveOptions{}, err
	}
	p := cmp.Or(m.Profile, &device.Default)
	if p.Link == 0 && o.HostBudget > 0 {
		return memopt.MoveOptions{}, cli.Usage("--host-budget: device %s has no link to a memory of the host: name "+
			"one with --link, such as --link 25GB/s, or another device", p.Name)
	}
	return memopt.MoveOptions{Link: offload.Link{BytesPerSecond: p.Link}, HostBudget: o.HostBudget}, nil
}

// WarnIdleLink warns of a --link that no value moves over, since the host has no memory for copies.
func WarnIdleLink(a *cli.App, flags *cli.MoveFlags, moves memopt.MoveOptions) {
	if flags.Given() && moves.HostBudget == 0 && moves.Link.BytesPerSecond > 0 {
		a.Warn("--link: no value moves without --host-budget, the memory that copies may take on the host")
	}
}

// Moves is ReadMoves of a plan. Values move for the sake of a budget, in memopt's own runtime; they stay where asked is
// false.
func (s *SelectionFlags) Moves(a *cli.App, flags *cli.MoveFlags, executes string) (moves memopt.MoveOptions,
	asked bool, err error) {
	if s.ForCPU() {
		executes = CpuDevice
	}
	if moves, err = ReadMoves(a, flags, s.DeviceFlags, executes); err != nil || !moves.Asked() {
		if err == nil {
			WarnIdleLink(a, flags, moves)
		}
		return memopt.MoveOptions{}, false, err
	}
	if !s.BudgetFlags.Asks() {
		return moves, false, cli.Usage("--link and --host-budget move values for the sake of a budget: add --budget")
	}
	if s.In == cli.OrtName {
		return moves, false, cli.Usage("--budget-in ort and --link cannot be combined: ONNX Runtime moves no values")
	}
	return moves, true, nil
}

// AgreeMoves is an error where flags that were given contradict a plan file whose values move: see MoveFlags.Agree.
// Without --link, a --device that has a link counts.
func (s *SelectionFlags) AgreeMoves(a *cli.App, flags *cli.MoveFlags, set *pflag.FlagSet, r *recompute.Record) error {
	if s.In == cli.OrtName {
		return cli.Usage("--budget-in ort and --plan %s cannot be combined: ONNX Runtime moves no values", s.Plan)
	}
	if s.Device != "" && !flags.Given() && !s.ForCPU() {
		m, err := s.DeviceFlags.Memory(a)
		if err != nil {
			return err
		}
		if p := m.Profile; p != nil && p.Link != 0 && (p.Link != r.Link.BytesPerSecond || r.Link.LatencyMicros != 0) {
			return cli.Usage("--device %s has a link of %s, and %s is planned for %s: add --link to keep to that, or "+
				"plan anew", s.Device,
				cli.LinkText(offload.Link{BytesPerSecond: p.Link}), s.Plan, cli.LinkTextOf(r.Link))
		}
	}
	return flags.Agree(set, s.Plan, r, a.Global.Seed)
}

// CheckMoves refuses a strategy that moves no values.
func CheckMoves(s memopt.Strategy) (memopt.Budget, error) {
	b, ok := s.(memopt.Budget)
	if !ok || b.Clusters || b.Runtime {
		return b, cli.Usage("--link and --host-budget are for plans of nodes to a budget in memopt's own runtime")
	}
	return b, nil
}
