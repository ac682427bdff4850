package fit

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"memopt"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/device"
)

// Device is how a training step fits a device.
type Device struct {
	Profile *device.Profile
	Limit   int64 // bytes that a step may take: the memory less the reserve
	// By says for every kind whether the step fits.
	By [numKinds]Fitting
}

// Fitting is a step on a device.
type Fitting struct {
	Fits     bool
	Total    int64   // bytes that it takes, or the fewest that were reached; 0 if unknown
	Overhead float64 // more time than without recomputing, as a share
}

// Devices are all devices that were considered, the one with the least memory first.
type Devices struct {
	Model   *memopt.Model
	Options Options
	List    []Device
	// Stopped says that the time limit ended the search: on devices behind, only the step without a plan
	// is known.
	Stopped bool
}

// OnDevices finds the smallest devices that fit a training step, among profiles that have a memory. All
// symbols must be bound. The options MaxOverhead, Plan, Effort, Seed and Progress count; the profile of
// Plan is that of each device. Errors are those of Largest.
func OnDevices(ctx context.Context, m *memopt.Model, profiles []*device.Profile, o Options) (*Devices, error) {
	d := &Devices{Model: m, Options: o}
	for _, p := range profiles {
		if p.Memory > 0 {
			d.List = append(d.List, Device{Profile: p, Limit: p.Memory - p.Reserve})
		}
	}
	slices.SortStableFunc(d.List, func(x, y Device) int {
		return cmp.Or(cmp.Compare(x.Limit, y.Limit), cmp.Compare(x.Profile.Name, y.Profile.Name))
	})
	for i := range d.List {
		on := &d.List[i]
		if o.Progress != nil {
			o.Progress(on.Profile.Name)
		}
		if d.Stopped = i > 0 && timelimit.Ended(ctx); d.Stopped {
			// The bytes of a step do not depend on the device.
			bytes := d.List[0].By[Plain].Total
			on.By[Plain] = Fitting{Fits: bytes <= on.Limit, Total: bytes}
			on.By[Best] = on.By[Plain]
			continue
		}
		if err := d.fill(ctx, on); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// fill finds out how the step fits one device.
func (d *Devices) fill(ctx context.Context, on *Device) error {
	o := d.Options.Plan
	o.Profile = on.Profile
	best := &on.By[Best]
	for k, s := range [...]memopt.Strategy{Plain: nil, Level1: memopt.Level(1)} {
		if err := ctx.Err(); err != nil && !timelimit.Ended(ctx) {
			return err
		}
		p, err := d.Model.Plan(ctx, s, o)
		if err != nil {
			return err
		}
		on.By[k] = Fitting{total(p) <= on.Limit, total(p), p.Overhead}
		if on.By[k].Fits && p.Overhead <= d.Options.MaxOverhead && (!best.Fits || p.Overhead < best.Overhead) {
			*best = on.By[k]
		}
	}
	if on.By[Plain].Fits || timelimit.Ended(ctx) {
		return nil
	}
	ctx, done := timelimit.Share(ctx, searchPart)
	defer done()
	p, err := d.Model.Plan(ctx, memopt.Budget{Total: on.Limit, Effort: d.Options.effort(), Seed: d.Options.Seed}, o)
	var infeasible *planner.InfeasibleError
	switch {
	case errors.As(err, &infeasible):
		if !best.Fits && infeasible.Searched() {
			best.Total = infeasible.Persistent + infeasible.LowestArena
		}
		return nil
	case err != nil:
		return err
	}
	if found := (Fitting{p.Overhead <= d.Options.MaxOverhead, total(p), p.Overhead}); !best.Fits ||
		found.Overhead < best.Overhead {
		*best = found
	}
	return nil
}

// Smallest is the first device that fits a kind; nil if there is no such device.
func (d *Devices) Smallest(k Kind) *Device {
	for i := range d.List {
		if d.List[i].By[k].Fits {
			return &d.List[i]
		}
	}
	return nil
}
