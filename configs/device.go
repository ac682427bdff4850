package configs

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/internal/nearmiss"
	"memopt/planner/device"
)

//go:embed devices/*.json
var deviceFiles embed.FS

// DeviceSchema is the schema of a device profile.
const DeviceSchema = "memopt.device/v1"

// deviceJSON is a device profile as its file has it. Every figure but the launch time, the memory and
// the link is required.
type deviceJSON struct {
	Schema   string    `json:"schema"`
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

// DeviceNames lists the built-in device profiles in the order of their names.
func DeviceNames() []string {
	entries, err := deviceFiles.ReadDir("devices")
	if err != nil {
		panic("configs: the embedded profiles: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	slices.Sort(names)
	return names
}

// LoadDevice returns a device profile: a built-in one by its name, in letters of any case, or one from a
// JSON file, which has a dot or a slash in its path.
func LoadDevice(name string) (*device.Profile, error) {
	if strings.ContainsAny(name, `./\`) {
		data, err := readFile(name)
		if err != nil {
			return nil, err
		}
		return ParseDevice(data, name)
	}
	data, err := deviceFiles.ReadFile(path.Join("devices", strings.ToLower(name)+".json"))
	if err != nil {
		text := fmt.Sprintf("no device has this name; wanted one of %s, or the path of a .json file",
			strings.Join(DeviceNames(), ", "))
		if near := nearmiss.Find(strings.ToLower(name), DeviceNames()); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, faultf(fmt.Sprintf("%q", name), "%s", text)
	}
	return ParseDevice(data, name)
}

// ParseDevice reads the JSON of a device profile.
func ParseDevice(data []byte, where string) (*device.Profile, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var j deviceJSON
	if err := dec.Decode(&j); err != nil {
		return nil, faultf(where, "is not a device profile: %v; wanted the form of memopt's "+
			"configs/devices/a100.json",
			err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, faultf(where, "has data after the device profile; wanted one JSON object")
	}
	if j.Schema != DeviceSchema {
		return nil, faultf(where, "has schema %q, wanted %q", j.Schema, DeviceSchema)
	}
	if j.Name == "" {
		return nil, faultf(where, "has no name, which reports need")
	}
	for _, f := range j.figures() {
		if !(f.value > 0) || math.IsInf(f.value, 1) {
			return nil, faultf(where, "%s is %v; wanted a positive number", f.name, f.value)
		}
	}
	if !(j.Launch >= 0) {
		return nil, faultf(where, "launch_seconds is %v; wanted 0 or more", j.Launch)
	}
	if j.Memory < 0 {
		return nil, faultf(where, "memory_bytes is %d; wanted 0 or more", j.Memory)
	}
	if j.Reserve < 0 || j.Reserve > j.Memory {
		return nil, faultf(where, "reserve_bytes is %d; wanted 0 to memory_bytes, which is %d", j.Reserve,
			j.Memory)
	}
	if !(j.Link >= 0) || math.IsInf(j.Link, 1) {
		return nil, faultf(where, "link_bytes_per_second is %v; wanted 0 or more", j.Link)
	}
	return &device.Profile{Name: j.Name, Loops: device.Rates(j.Loops), Products: device.Rates(j.Products),
		BytesPerSec: j.Bytes, LaunchSeconds: j.Launch, Memory: j.Memory, Reserve: j.Reserve,
		Link: j.Link, Source: j.Source}, nil
}

// figure is a number of a profile with its name in the file.
type figure struct {
	name  string
	value float64
}

func (j *deviceJSON) figures() []figure {
	list := []figure{{"bytes_per_second", j.Bytes}}
	for _, r := range []struct {
		name  string
		rates device.Rates
	}{{"loops_flops", device.Rates(j.Loops)}, {"products_flops", device.Rates(j.Products)}} {
		for _, d := range []graph.DType{graph.Float64, graph.Float32, graph.Float16, graph.BFloat16} {
			list = append(list, figure{fmt.Sprintf("%s.%s", r.name, dtypeFields[d]), r.rates.Of(d)})
		}
	}
	return list
}

var dtypeFields = map[graph.DType]string{graph.Float64: "float64", graph.Float32: "float32", graph.Float16: "float16",
	graph.BFloat16: "bfloat16"}

// NearestDevice returns the built-in profile whose memory is nearest to a number of bytes, by their
// ratio; the first by name among several. It stands for a device of known size only.
func NearestDevice(memory int64) *device.Profile {
	var best *device.Profile
	distance := func(p *device.Profile) float64 {
		return math.Abs(math.Log(float64(p.Memory) / float64(max(memory, 1))))
	}
	for _, name := range DeviceNames() {
		p, err := LoadDevice(name)
		if err != nil {
			panic("configs: the embedded profiles: " + err.Error())
		}
		if p.Memory > 0 && (best == nil || distance(p) < distance(best)) {
			best = p
		}
	}
	return best
}
