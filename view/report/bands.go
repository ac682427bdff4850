package report

import (
	"fmt"
	"io"

	"memopt/planner"
)

// BandsSchema is the schema of the JSON of plans for bands of sizes.
const BandsSchema = "memopt.bands/v1"

type bandsJSON struct {
	Schema      string      `json:"schema"`
	Model       string      `json:"model"`
	Symbol      string      `json:"symbol"`
	BudgetBytes int64       `json:"budget_bytes"`
	Quantile    float64     `json:"quantile"`
	ArenaBytes  int64       `json:"arena_bytes"`
	Overhead    float64     `json:"overhead"`
	One         float64     `json:"overhead_one_plan"`
	Single      float64     `json:"overhead_plan_for_each"`
	Bands       []bandJSON  `json:"bands"`
	Beyond      *beyondJSON `json:"beyond"`
}

type bandJSON struct {
	Lo         int64   `json:"from"`
	Hi         int64   `json:"to"`
	Share      float64 `json:"share"`
	Mean       int64   `json:"mean"`
	MostBytes  int64   `json:"most_bytes"`
	ArenaBytes int64   `json:"arena_bytes"`
	Seconds    float64 `json:"step_seconds"`
	Overhead   float64 `json:"overhead"`
	Nodes      int     `json:"recomputed_nodes"`
	Plan       *string `json:"plan"`
}

type beyondJSON struct {
	Share   float64 `json:"share"`
	Longest int64   `json:"longest"`
	Bytes   int64   `json:"bytes"`
}

// Bands writes plans for bands of sizes. If they were saved, files has their names and folder their folder.
func Bands(w io.Writer, f Format, model string, b *planner.Bands, folder string, files []string) error {
	limit := b.List[0].Plan.Options.Limit()
	if f == JSONFormat {
		j := bandsJSON{Schema: BandsSchema, Model: model, Symbol: b.Histogram.Symbol,
			BudgetBytes: max(limit.Total, limit.Arena), Quantile: b.Quantile, ArenaBytes: arenaOf(b),
			Overhead: b.Overhead, One: b.One, Single: b.Single}
		for i, x := range b.List {
			one := bandJSON{x.Lo, x.Hi, x.Share, x.Mean, x.Plan.Span.Most, x.Plan.Arena.Bytes, x.Seconds, x.Overhead,
				x.Plan.Recompute.Nodes, nil}
			if files != nil {
				one.Plan = &files[i]
			}
			j.Bands = append(j.Bands, one)
		}
		if b.Beyond > 0 {
			j.Beyond = &beyondJSON{b.Beyond, b.Longest, b.Most}
		}
		return WriteJSON(w, j)
	}
	t := &Table{Title: "Plans for bands of " + b.Histogram.Symbol,
		Header: []string{"from", "to", "share", "mean", "most_bytes", "overhead", "recomputed_nodes"},
		Right:  []bool{true, true, true, true, true, true, true}}
	if f == TableFormat {
		t.Header = []string{"From", "To", "Steps", "Mean", "Takes at most", "Overhead", "Recomputed"}
	} else if files != nil {
		t.Header = append(t.Header, "plan")
	}
	for i, x := range b.List {
		cells := []string{fmt.Sprint(x.Lo), fmt.Sprint(x.Hi), fmt.Sprintf("%.6f", x.Share), fmt.Sprint(x.Mean),
			fmt.Sprint(x.Plan.Span.Most), fmt.Sprintf("%.6f", x.Overhead), fmt.Sprint(x.Plan.Recompute.Nodes)}
		if f == TableFormat {
			cells[2], cells[4], cells[5] = Percent(x.Share), Bytes(x.Plan.Span.Most), Percent(x.Overhead)
		} else if files != nil {
			cells = append(cells, files[i])
		}
		t.Add(cells...)
	}
	if f == CSVFormat {
		return t.WriteCSV(w)
	}
	if err := t.WriteAs(w, f); err != nil {
		return err
	}
	if f == TableFormat {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return Sentences(w, f, bandSentences(b, folder, files)...)
}

// arenaOf is the bytes of the arena that all bands share.
func arenaOf(b *planner.Bands) (most int64) {
	for _, x := range b.List {
		most = max(most, x.Plan.Arena.Bytes)
	}
	return most
}

// bandSentences compare the expected cost with that of one plan, and say which steps are left out.
func bandSentences(b *planner.Bands, folder string, files []string) []string {
	list := []string{fmt.Sprintf("With sizes as frequent as given, steps take %s longer than without recomputation; "+
		"with one plan for all sizes %s, with a plan for each of the sizes that were tried %s. All plans use one "+
		"arena of %s.", Percent(b.Overhead), Percent(b.One), Percent(b.Single), Bytes(arenaOf(b)))}
	if b.Beyond > 0 {
		list = append(list, fmt.Sprintf("%s of the steps are longer: with the last plan they take up to %s, at "+
			"%s=%d.", Percent(b.Beyond), Bytes(b.Most), b.Histogram.Symbol, b.Longest))
	}
	if files != nil {
		list = append(list, fmt.Sprintf("The plans are in %s.", folder))
	}
	return list
}
