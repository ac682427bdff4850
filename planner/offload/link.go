package offload

import (
	"fmt"
	"math"
	"time"
)

// Link is the connection between device and host, in each direction.
type Link struct {
	BytesPerSecond float64       // 0: there is no link
	Latency        time.Duration // of each copy
}

// units are the seconds of the units of cost that measure time, by their names in instances.
var units = map[string]float64{"us": 1e-6, "ms": 1e-3}

// Validate returns an error for a rate or a latency that no link has.
func (l Link) Validate() error {
	switch {
	case !(l.BytesPerSecond >= 0) || math.IsInf(l.BytesPerSecond, 1):
		return fmt.Errorf("offload: the link has %g bytes per second: wanted a finite number from 0 on",
			l.BytesPerSecond)
	case l.Latency < 0:
		return fmt.Errorf("offload: the link's latency is %v: it must not be negative", l.Latency)
	}
	return nil
}

// clock is a link in units of cost.
type clock struct {
	rate    float64 // bytes per unit
	latency float64
}

// clock converts the link to a unit of cost. It fails for a unit that measures no time.
func (l Link) clock(unit string) (clock, error) {
	seconds, ok := units[unit]
	if !ok {
		return clock{}, fmt.Errorf("offload: costs are in %q: a link needs costs that are times, in us or ms", unit)
	}
	return clock{rate: l.BytesPerSecond * seconds, latency: l.Latency.Seconds() / seconds}, nil
}

// duration is the time of a copy.
func (c clock) duration(bytes int64) float64 { return c.latency + float64(bytes)/c.rate }
