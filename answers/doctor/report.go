package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"memopt/view/report"
)

// Schema is the schema of the JSON that `memopt doctor -O json` prints.
const Schema = "memopt.doctor/v1"

type machineJSON struct {
	Online  int      `json:"cores_online"`
	Usable  int      `json:"cores_usable"`
	Quota   *float64 `json:"cores_quota"`
	Memory  int64    `json:"memory_bytes"`
	Limited *int64   `json:"memory_limit_bytes"`
}

type doctorJSON struct {
	Schema   string      `json:"schema"`
	Answer   string      `json:"answer"`
	Slows    int         `json:"slows"`
	Memory   int         `json:"memory"`
	Limits   int         `json:"limits"`
	Machine  machineJSON `json:"machine"`
	Findings []Finding   `json:"findings"`
}

// count returns how many findings have a grade.
func count(list []Finding, g Grade) (n int) {
	for i := range list {
		if list[i].Grade == g {
			n++
		}
	}
	return n
}

// Answer sums the findings up in one sentence.
func Answer(list []Finding) string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(count(list, Slows), "thing slows this machine down", "things slow this machine down")
	add(count(list, Memory), "costs memory", "cost memory")
	add(count(list, Limits), "limits usable memory, cores or devices", "limit usable memory, cores or devices")
	hints := ""
	if n := count(list, Hint); n > 0 {
		hints = fmt.Sprintf("; hints: %d", n)
	}
	if len(parts) == 0 {
		return "No setting slows this machine down or costs memory" + hints + "."
	}
	return strings.Join(parts, ", ") + hints + "."
}

// titles are the headings of the findings of a grade.
var titles = map[Grade]string{Slows: "Slows it down", Memory: "Costs memory",
	Limits: "Limits it",
	Hint:   "Worth a try, or to know", Fine: "Looked at, and fine"}

// Report writes the findings of Examine: for people the answer, then those that need action, then
// the rest.
func (m *Machine) Report(w io.Writer, format report.Format, list []Finding) error {
	switch format {
	case report.JSONFormat:
		return report.WriteJSON(w, m.json(list))
	case report.CSVFormat, report.MarkdownFormat:
		t := report.Table{Header: []string{"Grade", "Subject", "Value", "Effect", "Fix", "Source"}}
		for i := range list {
			f := &list[i]
			t.Add(string(f.Grade), f.What, f.Value, f.Effect, f.Fix, f.Source)
		}
		if format == report.MarkdownFormat {
			t.Title = Answer(list)
		}
		return t.WriteAs(w, format)
	}
	var b strings.Builder
	wrap(&b, "", "", Answer(list))
	for _, g := range grades {
		if count(list, g) == 0 {
			continue
		}
		b.WriteString("\n" + titles[g] + "\n")
		for i := range list {
			if list[i].Grade == g {
				list[i].write(&b)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write adds a finding for people.
func (f *Finding) write(b *strings.Builder) {
	wrap(b, "  ", "    ", f.What+": "+f.Value)
	if f.Grade == Fine {
		if f.Value == absentValue {
			wrap(b, "      ", "      ", f.Effect)
		}
		return
	}
	wrap(b, "      ", "      ", f.Effect)
	if f.Fix != "" {
		wrap(b, "      do: ", "          ", f.Fix)
	}
	wrap(b, "      see: ", "           ", f.Source)
}

// columns is how wide the report for people is at most, but for words that are longer.
const columns = 80

// wrap adds a text in lines of at most so many columns.
func wrap(b *strings.Builder, first, next, text string) {
	line, empty := first, true
	for _, word := range strings.Fields(report.Plain(text)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			b.WriteString(line + "\n")
			line, empty = next, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(line + "\n")
}

func (m *Machine) json(list []Finding) *doctorJSON {
	c := m.Cores()
	total, limit := m.Memory()
	j := &doctorJSON{Schema: Schema, Answer: Answer(list), Slows: count(list, Slows),
		Memory:   count(list, Memory),
		Limits:   count(list, Limits),
		Machine:  machineJSON{Online: c.Online, Usable: c.Usable(), Memory: total},
		Findings: list}
	if c.Quota > 0 {
		j.Machine.Quota = &c.Quota
	}
	if limit.File != "" {
		j.Machine.Limited = &limit.Bytes
	}
	return j
}
