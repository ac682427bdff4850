package main

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/configs"
	"memopt/planner"
	"memopt/planner/arena"
	"memopt/view/report"
)

// deviceFlags name the device that a step is planned for. Every verb that plans a step has them.
type deviceFlags struct {
	gpu, device, reserve string
}

// register adds the flags. times says whose times count without --device.
func (d *deviceFlags) register(f *pflag.FlagSet, times string) {
	f.StringVar(&d.gpu, "gpu", "", "the memory of the device, such as 24GiB; it takes precedence over that of --device")
	f.StringVar(&d.device, "device", "", "a device whose times, memory and reserve count: "+
		strings.Join(configs.DeviceNames(), ", ")+", or a .json file; "+times)
	f.StringVar(&d.reserve, "reserve", "", "bytes of the memory that no step can have; default: those of --device, "+
		"or of the device whose memory is nearest to --gpu")
}

// deviceMemory is the memory of a device.
type deviceMemory struct {
	bytes   int64            // that the device has; 0: neither --gpu nor the profile says
	reserve int64            // the part of bytes that no step can have
	profile *planner.Profile // nil: no device is named
	near    bool             // the profile is that of the nearest device
}

// limit is the bytes that inputs, weights and the arena may take.
func (m *deviceMemory) limit() int64 { return m.bytes - m.reserve }

// memory reads the flags.
func (d *deviceFlags) memory(a *app) (*deviceMemory, error) {
	m := &deviceMemory{}
	var err error
	if d.gpu != "" {
		if m.bytes, err = report.ParseBytes(d.gpu); err != nil || m.bytes == 0 {
			return nil, usage("--gpu %q: %w; wanted a positive size such as 24GiB", d.gpu,
				cmp.Or(err, errors.New("is zero")))
		}
		a.warnBare("--gpu", d.gpu, m.bytes)
	}
	switch {
	case d.device != "":
		if m.profile, err = configs.LoadDevice(d.device); err != nil {
			return nil, usage("--device %w", err)
		}
		m.bytes = cmp.Or(m.bytes, m.profile.Memory)
	case m.bytes > 0:
		m.profile, m.near = configs.NearestDevice(m.bytes), true
	}
	if m.profile != nil {
		m.reserve = m.profile.Reserve
	}
	if d.reserve == "" {
		return m, nil
	}
	if m.reserve, err = report.ParseBytes(d.reserve); err != nil {
		return nil, usage("--reserve %q: %w; wanted a size such as 512MiB, or 0", d.reserve, err)
	}
	return m, nil
}

// reserved returns the bytes that the memory of the flags' device holds beside a planned step.
func (d *deviceFlags) reserved(a *app, p *memopt.Plan) (int64, error) {
	m, err := d.memory(a)
	if err != nil {
		return 0, err
	}
	return m.reserved(p), nil
}

// reserved returns the bytes that a device's memory holds beside a planned step: the reserve, and those that its
// driver's allocator rounds up.
func (m *deviceMemory) reserved(p *memopt.Plan) int64 {
	if m.reserve == 0 || p.Arena == nil {
		return m.reserve
	}
	return m.reserve + parts.Rounding(p.Of.Held(), p.Arena.Bytes, arena.Alignment)
}
