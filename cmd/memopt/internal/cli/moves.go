package cli

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/planner/offload"
	"memopt/recompute"
	"memopt/view/report"
)

// MoveFlags are the link and the host memory of values that move.
type MoveFlags struct{ link, host string }

// Register adds the flags. unset says which link there is without the flag.
func (m *MoveFlags) Register(f *pflag.FlagSet, unset string) {
	f.StringVar(&m.link, "link", "",
		"bytes per second between device and host each way, such as 25GB/s, or 25GB/s,10us with a latency; "+
			"0: no link; default: "+unset)
	f.StringVar(&m.host, "host-budget", "0",
		"bytes of host memory for values that move there, such as 64GiB; 0: no moves")
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

// Agree is an error where flags that were given contradict a plan file: another link, less host memory than its
// copies take, or another seed.
func (m *MoveFlags) Agree(flags *pflag.FlagSet, path string, r *recompute.Record, seed int64) error {
	asked, err := m.Options()
	if err != nil {
		return err
	}
	of, err := memopt.LinkOf(r.Link)
	if err != nil {
		return Usage("%s: %w", path, err)
	}
	if flags.Changed("link") && asked.Link != of {
		return Usage("--link %s: %s is planned for --link %s; leave --link out, or plan anew with it", m.link, path,
			LinkText(of))
	}
	if flags.Changed("host-budget") && asked.HostBudget < r.HostPeak {
		return Usage("--host-budget %s: copies of %s take up to %s (%d bytes) of the host at once; wanted at least "+
			"that, or a plan for less", m.host, path, report.Bytes(r.HostPeak), r.HostPeak)
	}
	if f := flags.Lookup("seed"); f != nil && f.Changed && seed != r.Seed {
		return Usage("--seed %d: the random nodes of %s have the seeds of --seed %d; leave --seed out, or plan anew "+
			"with it", seed, path, r.Seed)
	}
	return nil
}

// LinkTextOf words the link of a plan file as the flag takes it.
func LinkTextOf(r *recompute.LinkRecord) string {
	l, err := memopt.LinkOf(r)
	if err != nil {
		return err.Error()
	}
	return LinkText(l)
}

// LinkText words a link as the flag takes it.
func LinkText(l offload.Link) string {
	rate, unit := l.BytesPerSecond, ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if rate < 1000 || rate != 1000*math.Trunc(rate/1000) {
			break
		}
		rate, unit = rate/1000, next
	}
	text := strconv.FormatFloat(rate, 'f', -1, 64) + unit + "B/s"
	if l.Latency != 0 {
		text += "," + l.Latency.String()
	}
	return text
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
