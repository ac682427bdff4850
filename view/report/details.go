package report

import (
	"cmp"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"memopt/graph"
	"memopt/planner"
	"memopt/planner/ortmodule"
	"memopt/recompute"
)

// pattern is a group of nodes with equal operators, stashed outputs and candidates: a block of the
// node-level table.
type pattern struct {
	key     string
	freq    int
	node    graph.NodeID
	options []int // candidates of node
}

// detailTable writes the node-level table as ONNX Runtime's training build does at
// log level DEVINFO.
func detailTable(w io.Writer, p *planner.Plan, configPath string) error {
	const first = 7 // width of the first column
	empty := "|" + strings.Repeat(" ", first) + "|"
	rows := []string{
		fmt.Sprintf("|%-*s| Memory Optimization Opportunities (Clustered by node-level activation patterns)",
			first, "Freq"), separator,
	}
	row := make([]*planner.ClusterRow, len(p.Clusters)) // by cluster
	for i := range p.Clusters {
		row[p.Clusters[i].Index] = &p.Clusters[i]
	}
	for _, pat := range patterns(p) {
		rows = append(rows,
			fmt.Sprintf("|%-*d|For each row options are mutually exclusive, only one of them can be enabled.",
				first, pat.freq))
		for i, c := range pat.options {
			rows = append(rows, empty)
			for _, line := range optionLines(p, row, i+1, c) {
				rows = append(rows, empty+line)
			}
		}
		rows = append(rows, separator)
	}
	if configPath == "" {
		configPath = "not provided"
	}
	title := "MemoryInsight Summary - User config file path: " + configPath
	note := "Note: use comma as a separator for enabling more than one subgraphs."
	return writeBoxed(w, title, rows, note)
}

// ortmoduleTable writes the table of memory optimization plans that ORTModule prints itself at its log levels INFO and
// DEVINFO, for graphs of ORTModule with sizes.
func ortmoduleTable(w io.Writer, p *planner.Plan) error {
	if p.Session == nil {
		return nil
	}
	rows, err := ortmodule.Rows(p)
	if err != nil || len(rows) == 0 {
		return err
	}
	t := Table{Title: "ORTModule's own table (INFO, DEVINFO)",
		Header: []string{"Plan", "State", "Freq", "Max Saving(Bytes)", "Configs", "Saving Symbolic(Bytes)"},
		Right:  []bool{true, false, true, true, false, false}, Fit: []Fit{Whole, Whole, Whole, Wrap, Wrap, Wrap}}
	for i, r := range rows {
		state := "OFF"
		if r.On {
			state = "ON"
		}
		t.Add(strconv.Itoa(i+1), state, strconv.Itoa(r.Frequency), r.Saving, r.Config, r.Formula)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	if err := Paragraph(w, "ORTModule counts one output of a node with several stashed ones, such as a norm: any of "+
		"them, another one in the next run. Here it is the last."); err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// separator stands for the line between two blocks until the width is known.
const separator = "\x00"

// patterns groups the entries that have candidates, the most frequent first.
func patterns(p *planner.Plan) []pattern {
	a := p.Analysis
	index := map[string]int{}
	var out []pattern
	for i := 0; i < len(a.Candidates); {
		entry := a.Candidates[i].Entry
		options := a.OfEntry(entry)
		key := patternKey(a, entry, options)
		if k, ok := index[key]; ok {
			out[k].freq++
		} else {
			index[key] = len(out)
			out = append(out, pattern{key, 1, entry, options})
		}
		i += len(options)
	}
	order := func(x, y pattern) int {
		return cmp.Or(cmp.Compare(y.freq, x.freq), cmp.Compare(y.key, x.key))
	}
	sort.Slice(out, func(i, k int) bool { return order(out[i], out[k]) < 0 })
	return out
}

func patternKey(a *recompute.Analysis, entry graph.NodeID, options []int) string {
	var b strings.Builder
	b.WriteString(a.Graph.Nodes[entry].Op)
	for _, i := range options {
		c := &a.Candidates[i]
		fmt.Fprintf(&b, "|%d:%s", c.Strategy, a.Clusters[c.Cluster].ID)
		for _, v := range c.Stashed {
			val := &a.Graph.Values[v]
			fmt.Fprintf(&b, ":%d:%v", val.DefSlot, val.Type)
		}
	}
	return b.String()
}

// optionLines is one candidate of a block, without the first column.
func optionLines(p *planner.Plan, row []*planner.ClusterRow, number, candidate int) []string {
	a := p.Analysis
	c := &a.Candidates[candidate]
	cluster := &a.Clusters[c.Cluster]
	field := func(name, text string) string { return fmt.Sprintf("%-15s: %s", name, text) }
	status := "Disabled."
	if r := row[c.Cluster]; r.Enabled {
		status = fmt.Sprintf("Enabled, requested count=%d, actual applied count=%d", r.Requested, r.Applied)
	}
	lines := []string{
		field(fmt.Sprintf(">>Option %d", number), fmt.Sprintf("%s subgraph %s", c.Strategy, cluster.ID)),
		field("  Status", status),
		"  Stashed Activations: ",
	}
	for _, v := range c.Stashed {
		val := &a.Graph.Values[v]
		lines = append(lines, field(fmt.Sprintf("   - Output %d", val.DefSlot),
			fmt.Sprintf("[%s], byte/elem: %v, %d%% saved", countText(val.Type.Shape), float64(val.Type.DType.Bits())/8,
				int(c.Ratio.Float()*100))))
	}
	return lines
}

// countText writes a number of elements as ONNX Runtime does: "((batch)*(seq)*(64))".
func countText(s graph.Shape) string {
	if !s.Ranked {
		return "unknown"
	}
	if len(s.Dims) == 0 {
		return "(((1)))"
	}
	parts := make([]string, len(s.Dims))
	for i, d := range s.Dims {
		parts[i] = "(" + d.String() + ")"
	}
	return "(" + strings.Join(parts, "*") + ")"
}

// boxedLines breaks rows into lines of a width whose first column is as wide as first.
func boxedLines(rows []string, first, width int) []string {
	if width <= first {
		return rows
	}
	empty := "|" + strings.Repeat(" ", first-2) + "|"
	var out []string
	for _, r := range rows {
		if displayWidth(r) <= width {
			out = append(out, r)
			continue
		}
		for i, text := range broken(r[first:], width-first) {
			if i == 0 {
				text = r[:first] + text
			} else {
				text = empty + text
			}
			out = append(out, text)
		}
	}
	return out
}

// writeBoxed pads all lines to one width and closes them.
func writeBoxed(w io.Writer, title string, rows []string, note string) error {
	const start = "|_ _ _ _|"
	title = strings.Join(broken(Plain(title), columnsOf(w)), "\n")
	rows = plainCells([][]string{rows}, func(row string) string {
		if row == separator {
			return row
		}
		return Plain(row)
	})[0]
	rows = boxedLines(rows, len(start), columnsOf(w)-2)
	width := 0
	for _, r := range rows {
		width = max(width, displayWidth(r))
	}
	if (width-len(start))%2 == 0 {
		width++
	}
	var b strings.Builder
	border := strings.Repeat("=", width+1)
	fmt.Fprintf(&b, "%s\n%s\n", title, border)
	for _, r := range rows {
		if r == separator {
			b.WriteString((start + strings.Repeat("_ ", (width-len(start)+1)/2))[:width])
		} else {
			b.WriteString(r + strings.Repeat(" ", width-displayWidth(r)))
		}
		b.WriteString("|\n")
	}
	fmt.Fprintf(&b, "%s\n%s\n\n", border, note)
	_, err := io.WriteString(w, b.String())
	return err
}
