package report

import (
	"fmt"
	"io"

	"memopt/planner/device"
)

// DevicesSchema is the schema of the JSON that `memopt devices -O json` prints.
const DevicesSchema = "memopt.devices/v1"

// deviceJSON is a device profile with the fields of its file (configs/devices).
type deviceJSON struct {
	Name     string    `json:"name"`
	Loops    ratesJSON `json:"loops_flops"`
	Products ratesJSON `json:"products_flops"`
	Bytes    float64   `json:"bytes_per_second"`
	Launch   float64   `json:"launch_seconds"`
	Memory   int64     `json:"memory_bytes"`
	Reserve  int64     `json:"reserve_bytes"`
	Link     float64   `json:"link_bytes_per_second"`
	Source   string    `json:"source"`
}

type ratesJSON struct {
	Float64  float64 `json:"float64"`
	Float32  float64 `json:"float32"`
	Float16  float64 `json:"float16"`
	BFloat16 float64 `json:"bfloat16"`
}

// Devices lists device profiles: memory and rates, and in JSON where the figures are from.
func Devices(w io.Writer, format Format, list []*device.Profile) error {
	if format == JSONFormat {
		out := make([]deviceJSON, 0, len(list))
		for _, p := range list {
			out = append(out, deviceJSON{p.Name, ratesJSON(p.Loops), ratesJSON(p.Products), p.BytesPerSec,
				p.LaunchSeconds, p.Memory, p.Reserve, p.Link, p.Source})
		}
		return WriteJSON(w, map[string]any{"schema": DevicesSchema, "devices": out})
	}
	t := Table{Header: []string{"device", "memory", "reserve", "bf16 products", "fp32 loops", "bandwidth",
		"link"},
		Right: []bool{false, true, true, true, true, true, true}}
	for _, p := range list {
		t.Add(p.Name, orDash(p.Memory), orDash(p.Reserve), rate(p.Products.BFloat16, "FLOPS"),
			rate(p.Loops.Float32, "FLOPS"), rate(p.BytesPerSec, "B/s"), linkText(p.Link))
	}
	return t.WriteAs(w, format)
}

// orDash is a size, or that it is not known.
func orDash(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return Bytes(bytes)
}

// linkText is the rate of a link, or that there is none.
func linkText(bytesPerSecond float64) string {
	if bytesPerSecond == 0 {
		return "-"
	}
	return rate(bytesPerSecond, "B/s")
}

// rate is a rate with the prefix of its unit: "3.35 TB/s".
func rate(x float64, unit string) string {
	if x >= 1e12 {
		return fmt.Sprintf("%.4g T%s", x/1e12, unit)
	}
	return fmt.Sprintf("%.4g G%s", x/1e9, unit)
}
