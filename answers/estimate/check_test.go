package estimate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/estimate"
	"memopt/configs"
	"memopt/graph/examples"
	"memopt/internal/test/graphtest"
	"memopt/view/report"
)

// accuracyPage has the table that TestAccuracy makes.
const accuracyPage = "../../docs/accuracy.md"

// large are the samples whose steps take seconds or a gigabyte and more. ACCURACY=all runs them, too;
// else ACCURACY names the rows to run.
var large = []string{"3layer_bloom_optimized_training", "densenet121", "gpt2_124m", "gpt2_124m_op17_logits",
	"resnet50", "vgg11_bn"}

// TestAccuracy runs a training step of every sample model and of every example, as it is and with a
// plan for three quarters of its arena, and holds every figure to what was predicted: to the byte.
// docs/accuracy.md has the totals; ACCURACY=all UPDATE_ACCURACY=1 writes its table anew.
func TestAccuracy(t *testing.T) {
	text, err := os.ReadFile(accuracyPage)
	require.NoError(t, err)
	const begin, end = "<!-- table -->\n", "<!-- end of table -->\n"
	from, to := strings.Index(string(text), begin)+len(begin), strings.Index(string(text), end)
	page := strings.SplitAfter(string(text[from:to]), "\n")

	table := []string{"| model | sizes | held throughout | arena | total, predicted | measured | " +
		"with a plan, predicted | measured |\n", "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"}
	for _, c := range accuracyCases(t) {
		at := slices.IndexFunc(page, func(row string) bool { return strings.HasPrefix(row, "| "+c.name+" |") })
		require.GreaterOrEqual(t, at, 0, c.name)
		if !wanted(c.name) {
			table = append(table, page[at])
			continue
		}
		t.Run(strings.TrimPrefix(c.name, memopt.ExamplePrefix), func(t *testing.T) {
			row, head := c.row(t)
			if os.Getenv("UPDATE_ACCURACY") == "" && head != "" {
				require.True(t, strings.HasPrefix(page[at], head), "%s %s", page[at], head)
				row = page[at]
			}
			table = append(table, row)
		})
	}
	table = append(table, "")
	if os.Getenv("UPDATE_ACCURACY") != "" {
		out := string(text[:from]) + strings.Join(table, "") + string(text[to:])
		require.NoError(t, os.WriteFile(accuracyPage, []byte(out), 0o644))
		return
	}
	require.Equal(t, page, table, "ACCURACY=all UPDATE_ACCURACY=1 go test ./estimate -run TestAccuracy writes "+
		"the table anew")
}

// wanted reports whether a row is to be made anew.
func wanted(name string) bool {
	switch which := os.Getenv("ACCURACY"); which {
	case "":
		return !slices.Contains(large, name)
	case "all":
		return true
	default:
		return slices.Contains(strings.Split(which, ","), name)
	}
}

// accuracyCase is a row of the table.
type accuracyCase struct {
	name string
	open func(o memopt.Options) (*memopt.Model, error)
	dims []string // of the symbols that the model has
}

// accuracyCases are the rows in their order. Sizes are small, since every step is run.
func accuracyCases(t *testing.T) (list []accuracyCase) {
	own := map[string][]string{ // symbols of ONNX Runtime's own graphs, and those that rows need
		"3layer_bloom_optimized_training": {"inputs_attention_mask_dim0=2", "inputs_attention_mask_dim1=16",
			"inputs_input_ids_dim0=2", "inputs_labels_dim0=2", "inputs_labels_dim1=16"},
		"recompute_gelu": {"input1_dim0=64", "input1_dim1=784"},
		"recompute_tile": {"input1_dim0=24", "input1_dim1=4", "query_layer_dim0=48", "query_layer_dim1=4",
			"query_layer_dim2=8"},
		"training_model": {"input-0_dim0=64", "input-0_dim1=784", "output-0_dim0=64"},
		"example:mlp":    {"batch=64"},
		"example:cnn":    {"batch=4"},
	}
	add := func(name string, open func(o memopt.Options) (*memopt.Model, error)) {
		dims, ok := own[name]
		if !ok {
			dims = []string{"batch=2", "seq=16"}
			if slices.Contains(large, name) {
				dims = []string{"batch=1", "seq=8"}
			}
		}
		list = append(list, accuracyCase{name, open, dims})
	}
	for _, s := range graphtest.AllSamples.Files(t) {
		if s.Name == "gpt2_medium" { // gpt2_124m again, with 6 GB
			continue
		}
		add(s.Name, func(o memopt.Options) (*memopt.Model, error) { return memopt.Open(s.File, o) })
	}
	for _, ex := range examples.All() {
		add(memopt.ExamplePrefix+ex.Name, func(o memopt.Options) (*memopt.Model, error) {
			return memopt.Example(ex.Name, o)
		})
	}
	return list
}

// row runs the steps of a case and returns its row. head is the part of it that is the same on every
// machine, where kernels have workspaces, which depend on processor and libraries; else it is "".
func (c *accuracyCase) row(t *testing.T) (row, head string) {
	t.Helper()
	dims := map[string]int64{}
	for _, text := range c.dims {
		name, value, _ := strings.Cut(text, "=")
		var n int64
		_, err := fmt.Sscan(value, &n)
		require.NoError(t, err)
		dims[name] = n
	}
	m, err := c.open(memopt.Options{Dims: dims})
	require.NoError(t, err)
	defer m.Close()
	none := int64(0)
	o := estimate.Options{Recipe: adamw(), Threads: 2, Reserve: &none}
	o.Device, err = configs.LoadDevice("cpu")
	require.NoError(t, err)
	r, err := estimate.Make(t.Context(), m, o)
	require.NoError(t, err)
	o.Memory = r.Plain.Total() - r.Plain.Plans[0].Arena.Bytes/4
	ledger, err := estimate.Check(t.Context(), m, o)
	require.NoError(t, err)
	require.True(t, ledger.Exact(), "%+v", ledger.Lines)
	total := figure(t, ledger, "step", "total")
	arena := figure(t, ledger, "step", "arena")
	symbols := m.Symbols()
	bound := slices.DeleteFunc(slices.Clone(c.dims), func(text string) bool {
		name, _, _ := strings.Cut(text, "=")
		return !slices.Contains(symbols, name)
	})
	cells := []string{c.name, strings.Join(bound, ", "), report.Thousands(total.Predicted - arena.Predicted),
		report.Thousands(arena.Predicted), report.Thousands(total.Predicted), report.Thousands(total.Measured),
		"none fits", ""}
	if ledger.Result.Planned != nil {
		with := figure(t, ledger, "planned", "total")
		cells[6], cells[7] = report.Thousands(with.Predicted), report.Thousands(with.Measured)
		require.LessOrEqual(t, with.Measured, o.Memory)
	}
	if slices.Max(r.Plain.Plans[0].Options.Workspace) > 0 {
		head = "| " + strings.Join(cells[:3], " | ") + " |"
	}
	return "| " + strings.Join(cells, " | ") + " |\n", head
}

// figure is a line of a ledger.
func figure(t *testing.T, l *estimate.Ledger, step, what string) estimate.Line {
	t.Helper()
	at := slices.IndexFunc(l.Lines, func(x estimate.Line) bool { return x.Step == step && x.What == what })
	require.GreaterOrEqual(t, at, 0, "%s, %s: %+v", step, what, l.Lines)
	return l.Lines[at]
}

// TestCheckIsReported: the JSON of a result has the ledger of the run where there was one, and none where not.
func TestCheckIsReported(t *testing.T) {
	r := &estimate.Result{Plain: &estimate.Outcome{}}
	shown := func() (out struct {
		Check *struct {
			Exact bool
			Lines []map[string]any
		}
	}) {
		var text strings.Builder
		require.NoError(t, estimate.Report(&text, report.JSONFormat, r, false))
		require.NoError(t, json.Unmarshal([]byte(text.String()), &out))
		return out
	}
	require.Nil(t, shown().Check)
	r.Check = &estimate.Ledger{Lines: []estimate.Line{{Step: "step", What: "arena", Predicted: 5, Measured: 5},
		{Step: "step", What: "total", Predicted: 9, Measured: 8}}}
	out := shown()
	require.NotNil(t, out.Check)
	require.False(t, out.Check.Exact)
	require.Equal(t, []map[string]any{
		{"step": "step", "what": "arena", "predicted_bytes": 5.0, "measured_bytes": 5.0, "information": false},
		{"step": "step", "what": "total", "predicted_bytes": 9.0, "measured_bytes": 8.0, "information": false},
	}, out.Check.Lines)
	r.Check.Lines[1].Measured = 9
	require.True(t, shown().Check.Exact)
}
