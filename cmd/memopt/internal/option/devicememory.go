package option

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/cmd/memopt/internal/cli"
	"memopt/configs"
	"memopt/planner/arena"
	"memopt/planner/device"
	"memopt/view/report"
)

// DeviceFlags name the device that a step is planned for. Every verb that plans a step has them.
type DeviceFlags struct {
	Gpu, Device, Reserve string
}

// Register adds the flags. times says whose times count without --device.
func (d *DeviceFlags) Register(f *pflag.FlagSet, times string) {
	f.StringVar(&d.Gpu, "gpu", "", "the memory of the device, such as 24GiB; it takes precedence over that of --device")
	f.StringVar(&d.Device, "device", "", "a device whose times, memory and reserve count: "+
		strings.Join(configs.DeviceNames(), ", ")+", or a .json file; "+times)
	f.StringVar(&d.Reserve, "reserve", "", "bytes of the memory that no step can have; default: those of --device, "+
		"or of the device whose memory is nearest to --gpu")
}

// deviceMemory is the memory of a device.
type deviceMemory struct {
	Bytes   int64           // that the device has; 0: neither --gpu nor the profile says
	Reserve int64           // the part of bytes that no step can have
	Profile *device.Profile // nil: no device is named
	Near    bool            // the profile is that of the nearest device
}

// limit is the bytes that inputs, weights and the arena may take.
func (m *deviceMemory) limit() int64 { return m.Bytes - m.Reserve }

// Memory reads the flags.
func (d *DeviceFlags) Memory(a *cli.App) (*deviceMemory, error) {
	m := &deviceMemory{}
	var err error
	if d.Gpu != "" {
		if m.Bytes, err = report.ParseBytes(d.Gpu); err != nil || m.Bytes == 0 {
			return nil, cli.Usage("--gpu %q: %w; wanted a positive size such as 24GiB", d.Gpu,
				cmp.Or(err, errors.New("is zero")))
		}
		warnBare(a, "--gpu", d.Gpu, m.Bytes)
	}
	switch {
	case d.Device != "":
		if m.Profile, err = configs.LoadDevice(d.Device); err != nil {
			return nil, cli.Usage("--device %w", err)
		}
		m.Bytes = cmp.Or(m.Bytes, m.Profile.Memory)
	case m.Bytes > 0:
		m.Profile, m.Near = configs.NearestDevice(m.Bytes), true
	}
	if m.Profile != nil {
		m.Reserve = m.Profile.Reserve
	}
	if d.Reserve == "" {
		return m, nil
	}
	if m.Reserve, err = report.ParseBytes(d.Reserve); err != nil {
		return nil, cli.Usage("--reserve %q: %w; wanted a size such as 512MiB, or 0", d.Reserve, err)
	}
	return m, nil
}

// Reserved returns the bytes that the memory of the flags' device holds beside a planned step.
func (d *DeviceFlags) Reserved(a *cli.App, p *memopt.Plan) (int64, error) {
	m, err := d.Memory(a)
	if err != nil {
		return 0, err
	}
	return m.reserved(p), nil
}

// reserved returns the bytes that a device's memory holds beside a planned step: the reserve, and those that its
// driver's allocator rounds up.
func (m *deviceMemory) reserved(p *memopt.Plan) int64 {
	if m.Reserve == 0 || p.Arena == nil {
		return m.Reserve
	}
	return m.Reserve + parts.Rounding(p.Of.Held(), p.Arena.Bytes, arena.Alignment)
}
