package report

import (
	"fmt"

	"memopt/planner"
)

// CopiesJSON is about values that move to the host and back in a step.
type CopiesJSON struct {
	Host          int64   `json:"host_bytes"` // beside the device's memory
	ToHost        int     `json:"to_host"`
	FromHost      int     `json:"from_host"`
	ToHostBytes   int64   `json:"to_host_bytes"`
	FromHostBytes int64   `json:"from_host_bytes"`
	Rate          float64 `json:"link_bytes_per_second"` // 0: copies take no time
	Seconds       float64 `json:"step_seconds"`
	Waited        float64 `json:"waited_seconds"`
}

// NewCopiesJSON is the form of the copies of a step over a link of so many bytes per second; nil without copies.
func NewCopiesJSON(c *planner.Copies, rate float64) *CopiesJSON {
	if c == nil {
		return nil
	}
	return &CopiesJSON{Host: c.Arena, ToHost: c.Out, FromHost: c.In, ToHostBytes: c.OutBytes, FromHostBytes: c.InBytes,
		Rate: rate, Seconds: c.Seconds, Waited: c.Waited}
}

// CopiesText describes the copies of a step over a link of so many bytes per second in two sentences. The first
// goes on from a text such as "The graph moves values to the host: ".
func CopiesText(c *planner.Copies, rate float64) string {
	text := fmt.Sprintf("%s in %d copies, and %s back in %d; they take %s of the host. ", Bytes(c.OutBytes), c.Out,
		Bytes(c.InBytes), c.In, Bytes(c.Arena))
	if rate == 0 {
		return text + fmt.Sprintf("A step takes an estimated %s besides; there is no link.", Milliseconds(c.Seconds))
	}
	return text + fmt.Sprintf("Over a link of %.4g GB/s a step takes an estimated %s, %s of them waiting.", rate/1e9,
		Milliseconds(c.Seconds), Milliseconds(c.Waited))
}

// Milliseconds is a time in seconds as text with three digits.
func Milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", seconds*1e3) }
