package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/configs"
	"memopt/planner"
	"memopt/recompute"
)

func entry(id recompute.ClusterID, strategy recompute.Strategy, count int) planner.ConfigEntry {
	return planner.ConfigEntry{Cluster: id, Strategy: strategy, Count: count}
}

func TestParseORT(t *testing.T) {
	for _, c := range []struct {
		name, json string
		want       []planner.ConfigEntry
	}{
		{"empty array", `[]`, nil},
		{"empty string", `[""]`, nil},
		{"one", `["Gelu+:1:-1"]`, []planner.ConfigEntry{entry("Gelu+", 1, -1)}},
		{"off", `["Gelu+:0:0"]`, []planner.ConfigEntry{entry("Gelu+", 0, 0)}},
		{"several in one string", `["A+:1:2,B+:2:-1"]`, []planner.ConfigEntry{entry("A+", 1, 2), entry("B+", 2, -1)}},
		{"empty pieces vanish", `["A+::1:-1", ",,A+:1:1,"]`,
			[]planner.ConfigEntry{entry("A+", 1, -1), entry("A+", 1, 1)}},
		{"nothing is trimmed", `[" A+:1:1"]`, []planner.ConfigEntry{entry(" A+", 1, 1)}},
		{"junk behind digits", `["A+:1x:3 "]`, []planner.ConfigEntry{entry("A+", 1, 3)}},
		{"overflow reads as 0", `["A+:1:99999999999"]`, []planner.ConfigEntry{entry("A+", 1, 0)}},
		{"negative overflow reads as 0", `["A+:1:-99999999999"]`, []planner.ConfigEntry{entry("A+", 1, 0)}},
		{"byte order mark", "\xef\xbb\xbf[\"A+:1:1\"]", []planner.ConfigEntry{entry("A+", 1, 1)}},
		{"blanks around JSON", " \n[ \"A+:1:1\" ]\n", []planner.ConfigEntry{entry("A+", 1, 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := configs.ParseORT([]byte(c.json), "config.json")
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestParseORTErrors(t *testing.T) {
	for json, want := range map[string]string{
		``:                 "is not JSON",
		`[`:                "is not JSON",
		`[] []`:            "is not JSON",
		`{"a": 1}`:         "holds an object; wanted an array of strings",
		`"A+:1:1"`:         "holds a string; wanted an array of strings",
		`null`:             "holds null; wanted an array of strings",
		`[1]`:              "element 0 is a number; wanted a string",
		`["A+:1:1", null]`: "element 1 is null; wanted a string",
		`["A+"]`:           `entry "A+" has 1 pieces, wanted 3`,
		`["A+:1"]`:         `entry "A+:1" has 2 pieces, wanted 3`,
		`["A+:1:1:1"]`:     `entry "A+:1:1:1" has 4 pieces, wanted 3`,
		`["A+:3:1"]`:       "strategy is 3, wanted 0",
		`["A+:-1:1"]`:      "strategy is -1, wanted 0",
		`["A+:1:-2"]`:      "count is -2, wanted -1",
		`["A+:one:1"]`:     `strategy: "one" is not an integer`,
		`["A+:1: 1"]`:      `count: " 1" is not an integer`,
		`["A+:1:+1"]`:      `count: "+1" is not an integer`,
		`["A+:1:-"]`:       `count: "-" is not an integer`,
		"[\"A+\xff:1:1\"]": "is not UTF-8 text",
	} {
		_, err := configs.ParseORT([]byte(json), "config.json")
		if assert.Error(t, err, json) {
			assert.Contains(t, err.Error(), "config.json: ", json)
			assert.Contains(t, err.Error(), want, json)
			assert.NotContains(t, err.Error(), "\n", json)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := configs.LoadORT(filepath.Join(dir, "none.json"))
	assert.ErrorContains(t, err, "none.json: cannot be read: no such file")
	_, err = configs.LoadORT(dir)
	assert.ErrorContains(t, err, "is a directory; wanted a file or a pipe")
	big := filepath.Join(dir, "big.json")
	f, err := os.Create(big)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(65<<20))
	require.NoError(t, f.Close())
	_, err = configs.LoadORT(big)
	assert.ErrorContains(t, err, "at most 67108864 are read")
}

// TestLoadList: entries in place of a file name, as ONNX Runtime's variable once held them, mean
// what a file of them means; a file of that name takes precedence.
func TestLoadList(t *testing.T) {
	t.Chdir(t.TempDir())
	for text, file := range map[string]string{
		"Cast+Reshape+:1:-1,Gelu+:1:2": `["Cast+Reshape+:1:-1", "Gelu+:1:2"]`,
		"Gelu+:1:-1":                   `["Gelu+:1:-1"]`,
		",A+::1:2x,, B+:2:-1":          `[",A+::1:2x,, B+:2:-1"]`,
		strings.Repeat("LongEnoughToBeNoNameOfAFile+", 20) + ":1:-1": `["` +
			strings.Repeat("LongEnoughToBeNoNameOfAFile+", 20) + `:1:-1"]`,
	} {
		want, err := configs.ParseORT([]byte(file), "file")
		require.NoError(t, err)
		require.NotEmpty(t, want)
		got, err := configs.LoadORT(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"Gelu+:1":           `Gelu+:1: is not a file; read as a list: entry "Gelu+:1" has 2 pieces`,
		"Gelu+:3:-1":        "strategy is 3",
		"Gelu:1:-1":         "cannot be read: no such file", // no cluster ID ends like this
		"Gelu+:1:-1/a.json": "",
	} {
		_, err := configs.LoadORT(text)
		if want == "" {
			assert.NoError(t, err, text) // digits may be followed by anything
			continue
		}
		assert.ErrorContains(t, err, want, text)
	}
	require.NoError(t, os.WriteFile("Gelu+:1:-1", []byte(`["A+:2:3"]`), 0o644))
	got, err := configs.LoadORT("Gelu+:1:-1")
	require.NoError(t, err)
	assert.Equal(t, []planner.ConfigEntry{{Cluster: "A+", Strategy: 2, Count: 3}}, got)
}

func TestParseLevel(t *testing.T) {
	for text, want := range map[string]planner.Level{"0": 0, "1": 1, "2": 2, " 1 ": 1, "+2": 2, "-0": 0, "0_1": 1} {
		got, err := configs.ParseLevel(text, configs.LevelVariable)
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, got, text)
		}
	}
	for _, text := range []string{"", "x", "1.0", "0x1", "_1", "1_", "1__0", "3", "-1", "99999999999999999999"} {
		_, err := configs.ParseLevel(text, configs.LevelVariable)
		assert.ErrorContains(t, err, configs.LevelVariable, text)
	}
}

// TestExamples reads every example file of the folder.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, f := range files {
		entries, err := configs.LoadORT(f)
		require.NoError(t, err, f)
		require.NotEmpty(t, entries, f)
		assert.Contains(t, string(readme), "("+f+")", "the README does not explain it")
	}
}

func FuzzParseORT(f *testing.F) {
	for _, seed := range []string{`[]`, `["Gelu+:1:-1"]`, `["A+::1:-1,B+:2:0"]`, `{"a":[1]}`, `["A+:1:99999999999"]`,
		"[\"\u00e9+:1:1\"]", `["`,
		strings.Repeat("[", 100)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := configs.ParseORT(data, "fuzz")
		if err != nil {
			return
		}
		again, err := configs.ParseORT(configs.FormatORT(entries), "again")
		require.NoError(t, err)
		require.Equal(t, entries, again)
	})
}

// TestModulePlan: a plan for PyTorch is told apart from a damaged one.
func TestModulePlan(t *testing.T) {
	_, err := configs.ParsePlan([]byte(`{"format": "memopt-modules", "version": 1, "modules": ["h.0"]}`), "plan.json")
	require.ErrorContains(t, err, "plan.json: is a plan of modules")
	require.ErrorContains(t, err, "memopt.torch.apply")
	_, err = configs.ParsePlan([]byte(`{"format": "other"}`), "plan.json")
	require.ErrorContains(t, err, `has schema ""`)
}

func FuzzParsePlan(f *testing.F) {
	f.Add([]byte(`{"schema":"memopt.recompute/v1","order":[1,0],"placements":[{"value":"v","nodes":["a"],"before":"b","copy":1}]}`))
	f.Add([]byte(`{"schema":"memopt.plan/v1"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := configs.ParsePlan(data, "fuzz")
		if err != nil {
			return
		}
		text, err := configs.FormatPlan(r)
		require.NoError(t, err)
		again, err := configs.ParsePlan(text, "again")
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
