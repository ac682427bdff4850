package diff_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/answers/diff"
	"memopt/configs"
	_ "memopt/internal/test/rapidflags"
	"memopt/internal/test/schematest"
	"memopt/recompute"
	"memopt/view/report"
)

// planned plans a built-in model.
func planned(t testing.TB, name string, s memopt.Strategy) *memopt.Plan {
	t.Helper()
	m, err := memopt.Example(name, memopt.Options{})
	require.NoError(t, err)
	p, err := m.Plan(t.Context(), s, memopt.PlanOptions{})
	require.NoError(t, err)
	return p
}

func ofPlan(t testing.TB, p *memopt.Plan, name string) *diff.Subject {
	t.Helper()
	s, err := diff.OfPlan(p, name)
	require.NoError(t, err)
	return s
}

// ofFile is the plan as its file says it.
func ofFile(t testing.TB, p *memopt.Plan, name string) *diff.Subject {
	t.Helper()
	data, err := p.File(0)
	require.NoError(t, err)
	return parse(t, data, name)
}

func parse(t testing.TB, data []byte, name string) *diff.Subject {
	t.Helper()
	s, err := diff.Parse(data, name)
	require.NoError(t, err, "%s", data)
	return s
}

func compare(t testing.TB, a, b *diff.Subject) *diff.Result {
	t.Helper()
	r, err := diff.Compare(a, b)
	require.NoError(t, err)
	return r
}

// mirrored is what a comparison says with its sides swapped.
func mirrored(r *diff.Result) *diff.Result {
	swapped := func(pairs []diff.Pair) (out []diff.Pair) {
		for _, p := range pairs {
			out = append(out, diff.Pair{Name: p.Name, Unit: p.Unit, A: p.B, B: p.A})
		}
		return out
	}
	m := &diff.Result{A: r.B, B: r.A, Measures: swapped(r.Measures)}
	for _, c := range r.Changes {
		c.Facts = swapped(c.Facts)
		switch c.How {
		case diff.Added:
			c.How = diff.Removed
		case diff.Removed:
			c.How = diff.Added
		}
		m.Changes = append(m.Changes, c)
	}
	for _, l := range r.Layers {
		l.Added, l.Removed, l.A, l.B = l.Removed, l.Added, l.B, l.A
		m.Layers = append(m.Layers, l)
	}
	return m
}

// key is all that a placement does, of one in a plan file's JSON.
func key(p recompute.PlacementRecord) string {
	return fmt.Sprintf("%q before %q by %q", p.Value, p.Before, p.Nodes)
}

// minus is the difference of two multisets.
func minus(a, b []recompute.PlacementRecord) map[string]int {
	left := map[string]int{}
	for _, p := range a {
		left[key(p)]++
	}
	for _, p := range b {
		if left[key(p)] > 0 {
			left[key(p)]--
		}
	}
	return left
}

// checkPlacements holds the changes of placements to the difference of the sets in two plan files.
func checkPlacements(t require.TestingT, r *diff.Result, a, b []recompute.PlacementRecord) {
	onlyA, onlyB := minus(a, b), minus(b, a)
	total := 0
	for _, n := range onlyA {
		total += n
	}
	for _, n := range onlyB {
		total += n
	}
	seen, values := 0, map[string]map[diff.How]bool{}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Kind != diff.PlacementChange {
			continue
		}
		if seen++; c.How == diff.Changed {
			seen++
		}
		if values[c.Name] == nil {
			values[c.Name] = map[diff.How]bool{}
		}
		values[c.Name][c.How] = true
		if c.How == diff.Changed {
			continue // the facts that are equal are not there
		}
		side, of := onlyB, func(p diff.Pair) string { return p.B.Text }
		if c.How == diff.Removed {
			side, of = onlyA, func(p diff.Pair) string { return p.A.Text }
		}
		k := key(recompute.PlacementRecord{Value: c.Name, Before: of(c.Facts[0]),
			Nodes: strings.Split(of(c.Facts[1]), ", ")})
		require.Positive(t, side[k], k)
	}
	require.Equal(t, total, seen, "each placement of one side alone is in one change")
	for name, hows := range values {
		require.False(t, hows[diff.Added] && hows[diff.Removed], "%s: was moved", name)
	}
}

// TestItself: what is compared with itself does not differ.
func TestItself(t *testing.T) {
	for _, name := range []string{"mlp", "cnn", "transformer"} {
		p := planned(t, name, memopt.Level(1))
		for _, s := range []*diff.Subject{ofPlan(t, p, "model"), ofFile(t, p, "file")} {
			r := compare(t, s, s)
			require.True(t, r.Same(), "%v", r.Changes)
			require.Empty(t, r.Layers)
			require.NotEmpty(t, r.Measures)
			require.Equal(t, r.Changes, mirrored(r).Changes)
		}
		r := compare(t, ofPlan(t, p, "model"), ofFile(t, p, "file"))
		require.True(t, r.Same(), "a plan and its file: %v", r.Changes)
		require.Greater(t, len(r.Measures), 5)
	}
}

// TestPlans: of two plans of a model, every placement that differs is found, and only these; and the
// sides can be swapped.
func TestPlans(t *testing.T) {
	plans := []*memopt.Plan{planned(t, "transformer", nil), planned(t, "transformer", memopt.Level(1)),
		planned(t, "transformer", memopt.Level(2)),
		planned(t, "transformer", memopt.Budget{Share: 0.7, Solver: "greedy"})}
	for _, p := range plans {
		for _, q := range plans {
			for _, of := range []func(testing.TB, *memopt.Plan, string) *diff.Subject{ofPlan, ofFile} {
				a, b := of(t, p, "a"), of(t, q, "b")
				r := compare(t, a, b)
				checkPlacements(t, r, p.Record(0).Placements, q.Record(0).Placements)
				back := mirrored(compare(t, b, a))
				require.Equal(t, back, r)
			}
		}
	}
	r := compare(t, ofPlan(t, plans[0], "a"), ofPlan(t, plans[1], "b"))
	again := 0 // stashed activations that level 1 recomputes, by its own rows
	for _, s := range plans[1].Stashed {
		if s.WhyKept == "" {
			again++
		}
	}
	require.Equal(t, again, r.Count(diff.StashChange))
	stashed := func(p *memopt.Plan, layer string) (n int64) {
		g := p.Of.Graph
		for _, s := range p.Stashed {
			if s.WhyKept != "" && g.LayerOfValue(s.Value) == layer {
				n += p.Sizes.Bytes[s.Value]
			}
		}
		return n
	}
	require.NotEmpty(t, r.Layers)
	for _, l := range r.Layers {
		require.Equal(t, fmt.Sprint(stashed(plans[0], l.Name)), l.A.Text, l.Name)
		require.Equal(t, fmt.Sprint(stashed(plans[1], l.Name)), l.B.Text, l.Name)
	}
}

// TestDrawnFiles does so for drawn plan files, in which a value may be made again many times and
// placements may be twice there.
func TestDrawnFiles(t *testing.T) {
	name := rapid.StringMatching(`(/h\.[0-9]{1,2}/)?[ab](#[0-9])?`)
	placements := rapid.SliceOf(rapid.Custom(func(t *rapid.T) recompute.PlacementRecord {
		return recompute.PlacementRecord{Value: rapid.SampledFrom([]string{"u", "v", "w"}).Draw(t, "value"),
			Before: name.Draw(t, "before"), Nodes: rapid.SliceOfN(name, 1, 3).Draw(t, "nodes"),
			Copy: rapid.IntRange(1, 3).Draw(t, "copy")}
	}))
	rapid.Check(t, func(t *rapid.T) {
		var records [2]*recompute.Record
		var subjects [2]*diff.Subject
		for i := range records {
			r := &recompute.Record{Schema: recompute.Schema, StructureSHA256: "same", Order: []int32{0, 1},
				Placements: placements.Draw(t, "placements"),
				Dims:       map[string]int64{"n": rapid.Int64Range(1, 2).Draw(t, "n")}}
			if rapid.Bool().Draw(t, "moved") {
				r.Order = []int32{1, 0}
			}
			data, err := configs.FormatPlan(r)
			require.NoError(t, err)
			records[i] = r
			subjects[i], err = diff.Parse(data, fmt.Sprint(i))
			require.NoError(t, err)
		}
		a, b := records[0], records[1]
		r, err := diff.Compare(subjects[0], subjects[1])
		require.NoError(t, err)
		checkPlacements(t, r, a.Placements, b.Placements)
		back, err := diff.Compare(subjects[1], subjects[0])
		require.NoError(t, err)
		require.Equal(t, mirrored(back), r)
		moved, dims := 0, 0
		if !slices.Equal(a.Order, b.Order) {
			moved = 1
		}
		if a.Dims["n"] != b.Dims["n"] {
			dims = 1
		}
		require.Equal(t, moved, r.Count(diff.OrderChange))
		require.Equal(t, dims, r.Count(diff.FieldChange))
	})
}

// TestOtherStructure: between graphs that differ, nodes without names are not told apart by their
// places in the file, and named ones are.
func TestOtherStructure(t *testing.T) {
	file := func(sha, before string) *diff.Subject {
		r := &recompute.Record{Schema: recompute.Schema, StructureSHA256: sha, Order: []int32{0},
			Placements: []recompute.PlacementRecord{{Value: "v", Before: before, Nodes: []string{"Gelu#3", "Add#4"}}}}
		data, err := configs.FormatPlan(r)
		require.NoError(t, err)
		return parse(t, data, sha)
	}
	require.Equal(t, 0, compare(t, file("x", "MatMul#7"), file("y", "MatMul#9")).Count(diff.PlacementChange))
	require.Equal(t, 1, compare(t, file("x", "MatMul#7"), file("x", "MatMul#9")).Count(diff.PlacementChange))
	require.Equal(t, 1, compare(t, file("x", "MatMul#7"), file("y", "Gemm#7")).Count(diff.PlacementChange))
	require.Equal(t, 1, compare(t, file("x", "node7"), file("y", "node9")).Count(diff.PlacementChange))
	order := func(sha, order string) *diff.Subject {
		return parse(t, []byte(`{"schema":"memopt.recompute/v1","structure_sha256":"`+sha+`","placements":[],"order":`+
			order+"}"), sha)
	}
	require.Equal(t, 1, compare(t, order("x", "[0,1]"), order("x", "[1,0]")).Count(diff.OrderChange))
	require.Equal(t, 0, compare(t, order("x", "[0,1]"), order("y", "[1,0]")).Count(diff.OrderChange))
}

// TestReports: fields are matched by path, elements of lists by what names them, numbers as numbers.
func TestReports(t *testing.T) {
	r := compare(t,
		parse(t, []byte(`{"schema":"memopt.run/v1","steps":1.0,"time_ms":{"median":2.5},"peak":{"arena_bytes":10},
			"outputs":[{"name":"loss","max_abs_diff":0.5},{"name":"g","max_abs_diff":null}],"facts":["x"],"on":true}`), "a"),
		parse(t, []byte(`{"schema":"memopt.run/v1","steps":1,"time_ms":{"median":5},"peak":{"arena_bytes":12},
			"outputs":[{"name":"g","max_abs_diff":1},{"name":"loss","max_abs_diff":0.5}],"facts":["x","y"],"on":false}`), "b"))
	var got []string
	for _, c := range r.Changes {
		got = append(got, fmt.Sprintf("%s %s %s", c.Kind, c.How, c.Name))
	}
	require.Equal(t, []string{"measure changed arena", "measure changed time", "field added facts[1]",
		"field changed on",
		"field added outputs[g].max_abs_diff"}, got)

	twice := func(text string) *diff.Subject {
		return parse(t, []byte(`{"schema":"memopt.x/v1","list":[{"name":"a","n":1},{"name":"a","n":`+text+`}]}`), "x")
	}
	r = compare(t, twice("2"), twice("3"))
	require.Len(t, r.Changes, 1)
	require.Equal(t, "list[1].n", r.Changes[0].Name, "names that do not tell elements apart are none")

	sized := func(text string) *diff.Subject {
		return parse(t, []byte(`{"schema":"memopt.x/v1","n_bytes":`+text+`}`), "x")
	}
	var text bytes.Buffer
	require.NoError(t, diff.Write(&text, report.TableFormat, compare(t, sized("524291936"), sized("524292416")), 10))
	require.Contains(t, text.String(), "524291936, now 524292416", "what looks alike is written out")

	_, err := diff.Compare(parse(t, []byte(`{"schema":"memopt.run/v1"}`), "a"),
		parse(t, []byte(`{"schema":"memopt.ops/v1"}`), "b"))
	require.ErrorContains(t, err, "a (memopt.run/v1) and b (memopt.ops/v1) have no measure in common")
	verify := compare(t, parse(t, []byte(`{"schema":"memopt.verify/v1","slowdown":1.25}`), "a"),
		parse(t, []byte(`{"schema":"memopt.recompute/v1","placements":[],"recompute":{"overhead":0.5}}`), "b"))
	require.Equal(t, "0.25", verify.Measures[0].A.Text)
	require.Equal(t, "overhead", verify.Measures[0].Name)
}

// TestUnreadable: what is no report says what it is.
func TestUnreadable(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "is not JSON"},
		{"{", "is not JSON"},
		{"[]", "is no JSON object"},
		{"{}", `has schema ""`},
		{`{"schema":3}`, `has schema ""`},
		{`{"format":"memopt-modules","modules":[]}`, "is a plan of modules for PyTorch; compare the reports"},
		{`{"schema":"other/v1"}`, `has schema "other/v1", wanted one of memopt's`},
		{`{"schema":"memopt.run/v1"} 1`, "has something behind"},
		{`{"schema":"memopt.recompute/v1"}`, `"placements" is missing, wanted a list`},
		{`{"schema":"memopt.recompute/v1","placements":{}}`, `"placements" is an object, wanted a list`},
		{`{"schema":"memopt.recompute/v1","placements":[3]}`, `placements[0] is a number, wanted an object`},
		{`{"schema":"memopt.recompute/v1","placements":[{"value":"v","before":"b"}]}`, "placements[0].nodes is missing"},
		{`{"schema":"memopt.recompute/v1","placements":[{"value":"v","before":"b","nodes":[null]}]}`,
			"placements[0].nodes[0] is missing"},
		{`{"schema":"memopt.recompute/v1","placements":[{"value":true,"before":"b","nodes":[]}]}`,
			"placements[0].value is a bool, wanted a text"},
		{`{"schema":"memopt.recompute/v1","placements":[],"order":["x"]}`, "order[0] is x: wanted the index of a node"},
		{`{"schema":"memopt.plan/v1"}`, `"clusters" is missing`},
		{`{"schema":"memopt.x/v1","a":` + strings.Repeat("[", 90) + strings.Repeat("]", 90) + "}", "nests deeper than 64"},
	} {
		_, err := diff.Parse([]byte(c.text), "file")
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "file: ")
	}
	require.True(t, diff.IsJSON([]byte("\xef\xbb\xbf \n{")))
	require.False(t, diff.IsJSON([]byte("\x08\x08")))
	require.False(t, diff.IsJSON(nil))
	parse(t, []byte("\xef\xbb\xbf{\"schema\":\"memopt.x/v1\",\"huge\":1e999999,\"tiny\":1e-999999}"), "marked")
}

// TestForms: every form has the answer, JSON keeps to its schema, and a comment is well-formed
// whatever names hold.
func TestForms(t *testing.T) {
	schema := schematest.Load(t, schematest.Folder(t), "diff")
	a := ofPlan(t, planned(t, "transformer", nil), "a|b<script>.onnx")
	b := ofPlan(t, planned(t, "transformer", memopt.Level(1)), "b")
	r := compare(t, a, b)
	condition, err := diff.ParseCondition("overhead>+1pp")
	require.NoError(t, err)
	require.NoError(t, r.Check([]diff.Condition{condition}))
	write := func(f report.Format, rows int) string {
		var w bytes.Buffer
		require.NoError(t, diff.Write(&w, f, r, rows))
		return w.String()
	}
	schema.Check(t, []byte(write(report.JSONFormat, 0)))
	var j struct {
		Peak    struct{ A_bytes, B_bytes int64 }
		Changed []json.RawMessage
		Failed  []json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(write(report.JSONFormat, 0)), &j))
	require.Equal(t, planned(t, "transformer", nil).Planned.Peak.Bytes, j.Peak.A_bytes)
	require.Equal(t, planned(t, "transformer", memopt.Level(1)).Planned.Peak.Bytes, j.Peak.B_bytes)
	require.Len(t, j.Changed, len(r.Changes))
	require.Len(t, j.Failed, 1)

	text := write(report.TableFormat, 10)
	require.True(t, strings.HasPrefix(text, "Peak falls from "), text)
	require.Contains(t, text, "Failed: overhead>+1pp: overhead rises from 0.0 %")
	require.Contains(t, text, "; -v lists all.")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 80, line)
	}
	require.NotContains(t, write(report.TableFormat, -1), "-v lists all")

	comment := write(report.MarkdownFormat, 3)
	require.True(t, strings.HasPrefix(comment, "### memopt: FAILED: overhead rises from 0.0 % to "), comment)
	require.Equal(t, strings.Count(comment, "<details>"), strings.Count(comment, "</details>"))
	require.Equal(t, 3, strings.Count(comment, "| + | /")+strings.Count(comment, "| + | (other)"), comment)
	require.Contains(t, comment, "| A | a\\|b&lt;script>.onnx | ")
	require.NotContains(t, comment, "<script>")
	require.Less(t, len(write(report.MarkdownFormat, 50)), 65536, "what a comment may have")

	csv := write(report.CSVFormat, 0)
	require.Contains(t, csv, "failed,,,overhead>+1pp,overhead,share,0,0.")
	require.Contains(t, csv, fmt.Sprintf("measure,changed,,peak,peak,bytes,%d,%d\n", j.Peak.A_bytes, j.Peak.B_bytes))

	r = compare(t, a, a)
	for _, f := range report.Formats {
		require.Contains(t, strings.ToLower(write(f, 10)), map[report.Format]string{
			report.TableFormat:    "no difference.",
			report.MarkdownFormat: "### memopt: no difference", report.JSONFormat: `"same": true`,
			report.CSVFormat: "measure,same,,peak"}[f])
	}
}

// TestConditions holds conditions to arithmetic on what they compare.
func TestConditions(t *testing.T) {
	size := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 1<<50))
	rapid.Check(t, func(t *rapid.T) {
		a, b := size.Draw(t, "a"), size.Draw(t, "b")
		overhead := rapid.Int64Range(0, 3000)
		share := [2]int64{overhead.Draw(t, "overhead a"), overhead.Draw(t, "overhead b")}
		operator := rapid.SampledFrom([]string{">", ">=", "<", "<="}).Draw(t, "operator")
		sign := rapid.SampledFrom([]string{"", "+", "-"}).Draw(t, "sign")
		hundredths := rapid.Int64Range(0, 20000).Draw(t, "number")
		var field, unit string
		var x, limit *big.Rat // limit in hundredths of the unit
		rat := big.NewRat
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			field, unit, x = "arena", "KiB", rat(b, 1)
			if sign != "" {
				x = rat(b-a, 1)
			}
			limit = rat((hundredths*1024+50)/100, 1) // to a byte
		case 1:
			if sign == "" || a == 0 {
				sign = "+"
				a = max(a, 1)
			}
			field, unit, x, limit = "arena", "%", rat(100*(b-a), a), rat(hundredths, 100)
		case 2:
			field, unit, x, limit = "overhead", "%", rat(share[1], 100), rat(hundredths, 100)
			sign = ""
		case 3:
			field, unit, x, limit = "overhead", "pp", rat(share[1]-share[0], 100), rat(hundredths, 100)
			if sign == "" {
				sign = "-"
			}
		}
		if sign == "-" {
			limit.Neg(limit)
		}
		subject := func(n, s int64) *diff.Subject {
			// A power of two is exact in both, so that rounding cannot matter where it is compared.
			text := fmt.Sprintf(`{"schema":"memopt.plan/v1","clusters":[],"stashed":[],"peak":{"arena_bytes":%d},
				"recompute":{"overhead":%d.%04d}}`, n, s/10000, s%10000)
			out, err := diff.Parse([]byte(text), "x")
			require.NoError(t, err)
			return out
		}
		c := x.Cmp(limit)
		if unit != "KiB" && field == "overhead" && c == 0 {
			t.Skip("a decimal share has no exact float64")
		}
		want := map[string]bool{">": c > 0, ">=": c >= 0, "<": c < 0, "<=": c <= 0}[operator]
		text := fmt.Sprintf("%s %s %s%d.%02d%s", field, operator, sign, hundredths/100, hundredths%100, unit)
		condition, err := diff.ParseCondition(text)
		require.NoError(t, err)
		r, err := diff.Compare(subject(a, share[0]), subject(b, share[1]))
		require.NoError(t, err)
		require.NoError(t, r.Check([]diff.Condition{condition}))
		require.Equal(t, want, len(r.Failed) == 1, "%s of %d, %d; %v", text, a, b, share)
	})
}

// TestConditionForms: what conditions may look like, and what is wrong with others.
func TestConditionForms(t *testing.T) {
	r := compare(t, parse(t, []byte(`{"schema":"memopt.run/v1","steps":0,"time_ms":{"median":1000},"backend":"cpu",
		"peak":{"arena_bytes":0,"rss_bytes":null},"outputs":[{"name":"a<b","n":3}]}`), "a.json"),
		parse(t, []byte(`{"schema":"memopt.run/v1","steps":0,"time_ms":{"median":2000},"backend":"cpu",
		"peak":{"arena_bytes":1048576,"rss_bytes":null},"outputs":[{"name":"a<b","n":3}]}`), "b.json"))
	for text, met := range map[string]bool{
		"arena<1MiB": false, "arena<=1MiB": true, "arena<2MiB": true, "arena<=1": false, "arena>0": true,
		"arena>=1MiB": true, "arena>1MiB": false, "arena>1048575": true, "arena>1mb": true,
		"arena>+2%": true, "arena<+2%": false, "steps>+0%": false, "steps>=+0%": true, "steps<+1%": true,
		"time>=2s": true, "time>2s": false, "time>+999ms": true, "time > + 1000 ms": false, "time>=+100%": true,
		"time_ms.median>1ms": true, "outputs[a<b].n>=3": true, "outputs[a<b].n > 3": false, "arena<-1B": false,
		"arena>-1B": true,
	} {
		c, err := diff.ParseCondition(text)
		require.NoError(t, err, text)
		r.Failed = nil
		require.NoError(t, r.Check([]diff.Condition{c}), text)
		require.Equal(t, met, len(r.Failed) == 1, text)
	}
	for text, want := range map[string]string{
		"peak":                      "has no operator",
		">3":                        "names no field",
		"peak>":                     `cannot read ""`,
		"peak>three":                `cannot read "three"`,
		"peak>=>3":                  "names no field",
		"peak>1e3":                  "cannot read",
		"peak>++3":                  "cannot read",
		"peak>3 4":                  "cannot read",
		"peak>3XiB":                 "wanted a number with B",
		"peak>1.5B":                 "fraction of a byte",
		"overhead>1pp":              "write a sign",
		"peak=3":                    "has no operator",
		"peak>.5%":                  "cannot read",
		"peak>99999999999999999999": "cannot read",
	} {
		_, err := diff.ParseCondition(text)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		"aren>3":              `has a field "aren" (did you mean "arena"?)`,
		"time_ms.mediam>3ms":  `did you mean "time_ms.median"?`,
		"arena>3%":            "arena is in bytes: wanted a size, or +N% of its change",
		"arena>+3pp":          "arena is in bytes",
		"arena>3ms":           "arena is in bytes",
		"time>3":              "time is in milliseconds: wanted ms or s",
		"time>3MiB":           "time is in milliseconds",
		"steps>3ms":           "steps is a plain number",
		"steps>3%":            "steps is a plain number",
		"backend>3":           `backend of b.json is "cpu" and no number`,
		"peak.rss_bytes>3MiB": "peak.rss_bytes of b.json is unknown",
		"overhead>+1pp":       `neither a.json (memopt.run/v1) nor b.json (memopt.run/v1) has a field "overhead"`,
	} {
		c, err := diff.ParseCondition(text)
		require.NoError(t, err, text)
		require.ErrorContains(t, r.Check([]diff.Condition{c}), want, text)
	}
}

// FuzzParse: whatever is in a file, it is read or said to be wrong; what is read is equal to itself,
// and comparing it with something else is symmetric.
func FuzzParse(f *testing.F) {
	p := planned(f, "mlp", memopt.Level(1))
	data, err := p.File(0)
	require.NoError(f, err)
	f.Add(data)
	var b bytes.Buffer
	require.NoError(f, report.PlanJSON(&b, p.Plan, p.Of.StructureSHA256, nil, 0))
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"memopt.run/v1","time_ms":{"median":5},"outputs":[{"name":"g","max_abs_diff":1}]}`))
	other := ofFile(f, p, "other")
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := diff.Parse(data, "fuzz")
		if err != nil {
			return
		}
		r, err := diff.Compare(s, s)
		require.NoError(t, err)
		require.True(t, r.Same(), "%v", r.Changes)
		for _, format := range report.Formats {
			require.NoError(t, diff.Write(&bytes.Buffer{}, format, r, 10))
		}
		there, e := diff.Compare(s, other)
		back, e2 := diff.Compare(other, s)
		require.Equal(t, e == nil, e2 == nil)
		if e == nil {
			require.Equal(t, mirrored(back).Changes, there.Changes)
			require.NoError(t, diff.Write(&bytes.Buffer{}, report.MarkdownFormat, there, 10))
		}
	})
}

// TestLayerOrder: layers are in the order of their numbers.
func TestLayerOrder(t *testing.T) {
	file := func(layers ...string) *diff.Subject {
		r := &recompute.Record{Schema: recompute.Schema, Order: []int32{}}
		for _, l := range layers {
			r.Placements = append(r.Placements,
				recompute.PlacementRecord{Value: l, Before: "b", Nodes: []string{l + "/Add"}})
		}
		data, err := configs.FormatPlan(r)
		require.NoError(t, err)
		return parse(t, data, "x")
	}
	r := compare(t, file(), file("/h.10", "/h.2", "/h.1", "/g.3", "/h.02"))
	var names []string
	for _, l := range r.Layers {
		names = append(names, l.Name)
	}
	require.Equal(t, []string{"/g.3", "/h.1", "/h.2", "/h.02", "/h.10"}, names)
	require.True(t, slices.IsSortedFunc(r.Changes, func(x, y diff.Change) int { return cmp.Compare(x.Kind, y.Kind) }))
}

// TestUnlikeMeasures: a measure with another meaning on each side is refused, and named.
func TestUnlikeMeasures(t *testing.T) {
	subject := func(name, text string) *diff.Subject { return parse(t, []byte(text), name) }
	plan := subject("plan.json", `{"schema":"memopt.plan/v1","peak":{"planned_bytes":3},"recompute":{"overhead":0.1},`+
		`"clusters":[],"stashed":[]}`)
	estimate := subject("estimate.json", `{"schema":"memopt.estimate/v1","total_bytes":7}`)
	verify := subject("verify.json", `{"schema":"memopt.verify/v1","slowdown":1.25,"planned":{"time_ms":{"median":3}}}`)
	run := subject("run.json", `{"schema":"memopt.run/v1","peak":{"predicted_live_bytes":4},"time_ms":{"median":2}}`)
	for _, c := range []struct {
		a, b  *diff.Subject
		fails string
	}{
		{plan, estimate, "the peak of plan.json is the peak of live bytes without inputs and weights, and that of " +
			"estimate.json the total of a step: they do not compare"},
		{verify, plan, "the overhead of verify.json is a measurement, and that of plan.json an estimate: " +
			"they do not compare"},
		{plan, run, ""},
		{verify, run, ""},
		{estimate, estimate, ""},
		{verify, estimate, ""},
	} {
		err := diff.Like(c.a, c.b)
		if c.fails == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.fails)
	}
}
