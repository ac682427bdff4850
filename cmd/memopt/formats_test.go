package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/configs"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/schematest"
	"memopt/planner/remat"
	"memopt/recompute"
	"memopt/view/report"
)

// formats are the schemas of files and metadata that verbs read or write besides their reports.
var formats = []string{"ort-config", "device", "trace", "aliases", "schedule", "instance", "instance-v2", "boundary",
	"states", "watch", "roles", "timeline", "overlay"}

// TestFormats holds what verbs write, and the files that come with memopt, to the schemas of their
// formats.
func TestFormats(t *testing.T) {
	folder := schematest.Folder(t)
	root := filepath.Join(folder, "..", "..")
	check := func(format, file string) {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, schematest.Load(t, folder, format).Validate(data), file)
	}
	devices, err := filepath.Glob(filepath.Join(root, "configs", "devices", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, devices)
	for _, file := range devices {
		check("device", file)
	}
	examples, err := filepath.Glob(filepath.Join(root, "configs", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, file := range examples {
		check("ort-config", file)
	}

	exitFolder(t)
	for _, line := range []string{
		"plan example:transformer --level 1 --save-config config.json",
		"plan example:mlp --dim batch=4096 --level 1 --save-plan schedule.json -F deeploy",
		"run example:mlp --dim batch=4 --level 1 --init random:1 -r 2 --profile trace.json",
		"trace example:transformer --level 1 -o timeline.json",
		"trace example:transformer --level 1 -F model-explorer -o overlays",
		"apply example:transformer --level 1 -o yield.onnx",
		"apply example:mlp --dim batch=4096 --level 1 -o loss.onnx",
		"grad forward.onnx --optimizer adamw -o step.onnx",
	} {
		require.Zero(t, inProcess(t.Context(), nil, line+" -q").code, line)
	}
	check("ort-config", "config.json")
	check("schedule", "schedule.json")
	check("trace", "trace.json")
	check("timeline", "timeline.json")
	for _, o := range report.Overlays {
		check("overlay", filepath.Join("overlays", o.Name+".json"))
	}
	check("instance", "chain.json")
	check("instance", "hard.json")
	check("instance-v2", "joint.json")
	checkMetadata(t, folder, "yield.onnx", live.BoundaryKey, recompute.Key)
	checkMetadata(t, folder, "loss.onnx", live.BoundaryKey, recompute.Key)
	checkMetadata(t, folder, "step.onnx", live.BoundaryKey, live.StatesKey)
	m := &graph.Model{}
	op.RecordWatch(m, []string{"loss", "norm"})
	text, ok := m.Meta(op.WatchKey)
	require.True(t, ok)
	require.NoError(t, schematest.Load(t, folder, "watch").Validate([]byte(text)))
	part := &graph.Node{Kind: op.Dropout, Attrs: []graph.Attr{{Name: "seed", Value: int64(-3)}}}
	require.NoError(t, op.SetDrawFrom(part, "y", 1<<40))
	unseeded := &graph.Node{Kind: op.Dropout}
	require.NoError(t, op.SetDrawFrom(unseeded, "y", 0))
	for _, n := range []*graph.Node{part, unseeded} {
		text := n.Rare().Metadata[0].Value
		require.NoError(t, schematest.Load(t, folder, "draws").Validate([]byte(text)), text)
	}
}

// checkMetadata holds entries of a model's metadata to their schemas, whose names are those of the
// keys.
func checkMetadata(t *testing.T, folder, file string, keys ...string) {
	t.Helper()
	m, opened, err := onnx.Open(file)
	require.NoError(t, err)
	defer opened.Close()
	for _, key := range keys {
		text, ok := m.Meta(key)
		require.True(t, ok, "%s has no %s", file, key)
		schema := schematest.Load(t, folder, strings.TrimPrefix(key, "memopt."))
		require.NoError(t, schema.Validate([]byte(text)), "%s of %s: %s", key, file, text)
	}
}

// TestFormatsAgree: what a schema lets pass is read, and what is not read, no schema lets pass.
func TestFormatsAgree(t *testing.T) {
	folder := schematest.Folder(t)
	g, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { [n] y = Relu(x) }`,
		"g")
	require.NoError(t, err)
	const rates = `{"float64":1,"float32":1,"float16":1,"bfloat16":1}`
	device := func(rest string) string {
		return `{"schema":"memopt.device/v1","name":"d","loops_flops":` + rates + `,"products_flops":` + rates + rest +
			"}"
	}
	node := func(text string) string { return `{"budget":3,"nodes":[{"id":0,` + text + `}]}` }
	second := func(text string) string {
		return `{"format":"memopt-instance","version":2,"live":[{"id":"w","size":8}],"nodes":[{"id":"n",` + text + `}]}`
	}
	read := map[string]func([]byte) error{
		"ort-config": func(data []byte) error { _, err := configs.ParseORT(data, "c"); return err },
		"device":     func(data []byte) error { _, err := configs.ParseDevice(data, "d"); return err },
		"recompute":  func(data []byte) error { _, err := configs.ParsePlan(data, "p"); return err },
		"instance":   func(data []byte) error { _, err := remat.Read(strings.NewReader(string(data))); return err },
		"instance-v2": func(data []byte) error {
			_, p, err := remat.ReadAny(strings.NewReader(string(data)))
			if p == nil && err == nil {
				return errors.New("it is of version 1")
			}
			return err
		},
		"trace": func(data []byte) error {
			_, err := configs.ParseTrace(strings.NewReader(string(data)), "t")
			return err
		},
		"aliases": func(data []byte) error {
			path := filepath.Join(t.TempDir(), "a.json")
			require.NoError(t, os.WriteFile(path, data, 0o600))
			_, _, err := configs.LoadAliases(path, g.Graph)
			return err
		},
		"draws": func(data []byte) error {
			n := &graph.Node{}
			n.EditRare(func(r *graph.Rare) {
				r.Metadata = []graph.Property{{Key: op.DrawsKey, Value: string(data)}}
			})
			_, _, err := op.DrawsOf(n)
			return err
		},
	}
	for _, c := range []struct {
		format, text string
		good         bool
	}{
		{"ort-config", `["Gelu+:1:-1","Add+Mul+:2:3,Cast+:0:0"]`, true},
		{"ort-config", `[]`, true},
		{"ort-config", `["Gelu+:3:-1"]`, false},
		{"ort-config", `["Gelu+:1"]`, false},
		{"ort-config", `["Gelu+:1:-2"]`, false},
		{"ort-config", `{"a":1}`, false},
		{"ort-config", `[3]`, false},
		{"device", device(`,"bytes_per_second":1`), true},
		{"device", device(`,"bytes_per_second":1e12,"launch_seconds":0,"memory_bytes":5,"reserve_bytes":5,"source":"s"`), true},
		{"device", device(`,"bytes_per_second":0`), false},
		{"device", device(``), false},
		{"device", device(`,"bytes_per_second":1,"launch_seconds":-1`), false},
		{"device", device(`,"bytes_per_second":1,"memory_bytes":-1`), false},
		{"device", device(`,"bytes_per_second":1,"speed":1`), false},
		{"device", strings.Replace(device(`,"bytes_per_second":1`), `"d"`, `""`, 1), false},
		{"device", strings.Replace(device(`,"bytes_per_second":1`), "device/v1", "device/v2", 1), false},
		{"device", strings.Replace(device(`,"bytes_per_second":1`), `"float16":1,`, "", 1), false},
		{"instance-v2", second(`"cost":1.5,"size":0`), true},
		{"instance-v2", second(`"cost":0,"outputs":[],"workspace":1,"recompute":false,"tags":[1]`), true},
		{"instance-v2", second(`"inputs":["w"],"alias":"w"`), true},
		{"instance-v2", second(`"cost":1,"outputs":[{"id":"x","size":1,"keep":true}],"inputs":["w"]`), true},
		{"instance-v2", second(`"cost":1,"outputs":[{"id":"x","size":1,"alias":"w"}],"inputs":["w"]`), false},
		{"instance-v2", second(`"cost":-1,"size":0`), false},
		{"instance-v2", second(`"cost":1,"size":-1`), false},
		{"instance-v2", second(`"cost":1,"size":1.5`), false},
		{"instance-v2", second(`"cost":1`), false},
		{"instance-v2", second(`"size":1`), false},
		{"instance-v2", second(`"cost":1,"size":1,"outputs":[]`), false},
		{"instance-v2", second(`"cost":1,"keep":true,"outputs":[]`), false},
		{"instance-v2", node(`"cost":1,"size":1,"inputs":[]`), false},
		{"instance", node(`"cost":1,"size":1,"inputs":[]`), true},
		{"instance", node(`"cost":1,"size":1,"inputs":[],"keep":true,"workspace":3`), true},
		{"instance", node(`"cost":0,"size":1,"inputs":[]`), false},
		{"instance", node(`"cost":1,"size":0,"inputs":[]`), false},
		{"instance", node(`"cost":1,"size":1,"inputs":[],"workspace":-1`), false},
		{"instance", node(`"cost":1,"inputs":[]`), false},
		{"instance", node(`"cost":1,"size":1,"inputs":[],"color":1`), false},
		{"instance", `{"nodes":[]}`, true},
		{"instance", `{"budget":0,"nodes":[]}`, false},
		{"instance", `{"nodes":[{"id":"a","cost":1,"size":1,"inputs":[]},{"id":7,"cost":1,"size":1,"inputs":["a"]}]}`,
			true},
		{"instance", node(`"cost":1.5,"size":1,"inputs":[]`), false},
		{"instance", node(`"cost":1,"size":1,"inputs":[1.5]`), false},
		{"aliases", `{"aliased":["n"]}`, true},
		{"aliases", `{"aliased":[],"by":"another tool"}`, true},
		{"aliases", `{"aliased":null}`, false},
		{"aliases", `{}`, false},
		{"aliases", `["n"]`, false},
		{"trace", `{"displayTimeUnit":"ms","otherData":{"schema":"memopt.trace/v1","structure_sha256":"","dims":{},` +
			`"backend":"cpu","threads":1,"rewritten":false},"traceEvents":[{"name":"n","cat":"forward","ph":"X","ts":0,` +
			`"dur":1,"pid":1,"tid":1,"args":{"step":0}}]}`, true},
		{"trace", `{"displayTimeUnit":"ms","traceEvents":[]}`, false},
		{"trace", `[]`, false},
		{"recompute", `{"schema":"memopt.recompute/v1","structure_sha256":"0","dims":{},"order":[],"placements":[],` +
			`"predicted":null,"solver":"","seed":0,"bound":null}`, true}, // as earlier releases wrote it
		{"draws", `{"schema":"memopt.draws/v1","first":4096,"seed":-7}`, true},
		{"draws", `{"schema":"memopt.draws/v1","first":0,"of":"y"}`, true},
		{"draws", `{"schema":"memopt.draws/v1","first":-1}`, false},
		{"draws", `{"schema":"memopt.draws/v1","first":4611686018427387904}`, false},
		{"draws", `{"schema":"memopt.draws/v1","first":0.5}`, false},
		{"draws", `{"schema":"memopt.draws/v2","first":0}`, false},
		{"draws", `7`, false},
		{"recompute", `{"schema":"memopt.recompute/v1","structure_sha256":"0","dims":{},"order":["0-2",5],"placements":[],` +
			`"predicted":null,"solver":"","seed":0,"bound":null}`, true},
		{"recompute", `{"schema":"memopt.recompute/v1","structure_sha256":"0","dims":{},"order":["x"],"placements":[],` +
			`"predicted":null,"solver":"","seed":0,"bound":null}`, false},
		{"recompute", `{"schema":"memopt.recompute/v2"}`, false},
		{"recompute", `{"schema":"memopt.recompute/v1","dims":[]}`, false},
	} {
		require.True(t, json.Valid([]byte(c.text)), c.text)
		valid := schematest.Load(t, folder, c.format).Validate([]byte(c.text))
		if c.good {
			require.NoError(t, valid, c.text)
			require.NoError(t, read[c.format]([]byte(c.text)), c.text)
			continue
		}
		require.Error(t, valid, c.text)
		require.Error(t, read[c.format]([]byte(c.text)), c.text)
	}
}
