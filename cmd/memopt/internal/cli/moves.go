package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"memopt/planner/offload"
	"memopt/view/report"
)

// MoveFlags are the link and the host memory of values that move.
type MoveFlags struct{ link, host string }

// Register adds the flags. unset says which link there is without the flag.
func (m *MoveFlags) Register(f *pflag.FlagSet, unset string) {
	f.StringVar(&m.link, "link", "",
		"bytes per second between device and host each way, such as 25GB/s, or 25GB/s,10us with a latency; 0: none; "+
			"default: "+unset)
	f.StringVar(&m.host, "host-budget", "0",
		"bytes of host memory for values that move there, such as 64GiB; 0: none moves")
}

// Given reports whether there is a --link.
func (m *MoveFlags) Given() bool { return m.link != "" }

// Options reads the flags.
func (m *MoveFlags) Options() (offload.Options, error) {
	link, err := ParseLink(cmp.Or(m.link, "0"))
	if err != nil {
		return offload.Options{}, Usage("--link %q: %w", m.link, err)
	}
	host, err := report.ParseBytes(m.host)
	if err != nil {
		return offload.Options{}, Usage("--host-budget: %w", err)
	}
	return offload.Options{Link: link, HostBudget: host}, nil
}

// ParseLink reads a link: bytes per second, and a latency behind a comma. 0 is no link.
func ParseLink(text string) (offload.Link, error) {
	rate, latency, timed := strings.Cut(text, ",")
	rate = strings.TrimSpace(rate)
	size, perSecond := strings.CutSuffix(rate, "/s")
	if !perSecond && rate != "0" {
		return offload.Link{}, fmt.Errorf("wanted bytes per second, such as 25GB/s, or 0 for no link")
	}
	bytes, err := report.ParseBytes(size)
	if err != nil {
		return offload.Link{}, err
	}
	l := offload.Link{BytesPerSecond: float64(bytes)}
	if timed {
		if l.Latency, err = time.ParseDuration(strings.TrimSpace(latency)); err != nil {
			return offload.Link{}, fmt.Errorf("the latency is %q: wanted a time, such as 10us", latency)
		}
	}
	return l, l.Validate()
}
