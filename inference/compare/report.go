package compare

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"memopt/view/report"
)

// Summary is a report's view of a comparison.
type Summary struct {
	Data    string        `json:"data"` // where the inputs come from
	Backend string        `json:"backend"`
	Equal   bool          `json:"equal"` // within the tolerance
	Bits    bool          `json:"bits"`  // whether all outputs are equal bit for bit
	Outputs []summaryLine `json:"outputs"`
}

type summaryLine struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Equal  bool   `json:"equal"`
	Bits   bool   `json:"bits"`
	MaxAbs number `json:"max_abs_diff"`
	Value  number `json:"max_abs_value"`
	RMS    number `json:"rms_diff"`
	OfRMS  number `json:"rms_value"`
	First  string `json:"first_difference,omitempty"`
}

// number is null in JSON where it is not finite.
type number float64

// MarshalJSON writes the number.
func (n number) MarshalJSON() ([]byte, error) {
	if x := float64(n); math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// Summarize makes a report of outputs. data says where the inputs come from.
func Summarize(outputs []Output, data, backend string) *Summary {
	s := &Summary{Data: data, Backend: backend, Equal: true, Bits: true, Outputs: []summaryLine{}}
	for _, o := range outputs {
		s.Equal, s.Bits = s.Equal && o.Equal, s.Bits && o.Bits
		s.Outputs = append(s.Outputs, summaryLine{Name: o.Name, Type: o.Type, Equal: o.Equal, Bits: o.Bits,
			MaxAbs: number(o.MaxAbs), Value: number(o.MaxValue), RMS: number(o.RMS), OfRMS: number(o.RMSValue),
			First: o.First})
	}
	return s
}

// Worst is the output that differs most, and its largest difference relative to its largest element;
// "" and 0 where all are equal bit for bit. The share is NaN where an element of one side alone is no
// number.
func (s *Summary) Worst() (output string, share float64) {
	if o := s.worst(); o != nil {
		return o.Name, o.share()
	}
	return "", 0
}

func (s *Summary) worst() *summaryLine {
	var worst *summaryLine
	most := -1.0
	for i := range s.Outputs {
		o := &s.Outputs[i]
		if share := o.share(); !o.Bits && !math.IsNaN(most) && (share > most || math.IsNaN(share)) {
			worst, most = o, share
		}
	}
	return worst
}

// First describes the first difference beyond the tolerance, or returns "".
func (s *Summary) First() string {
	for _, o := range s.Outputs {
		if !o.Equal {
			return fmt.Sprintf("output %q: %s", o.Name, o.First)
		}
	}
	return ""
}

// share is the largest difference relative to the largest element.
func (o *summaryLine) share() float64 {
	if o.Value == 0 {
		return float64(o.MaxAbs)
	}
	return float64(o.MaxAbs / o.Value)
}

// Sentence says how the outputs compare.
func (s *Summary) Sentence() string {
	of := fmt.Sprintf("on %s (%s)", s.Data, s.Backend)
	o := s.worst()
	if o == nil {
		return "Outputs are equal bit for bit " + of + "."
	}
	return fmt.Sprintf("Outputs differ by at most %.3g, %.2g %% of the largest element (%s), %s.", float64(o.MaxAbs),
		100*o.share(), o.Name, of)
}

// Said is the sentence of a comparison; a nil Summary means that the outputs were not compared.
func Said(s *Summary) string {
	if s == nil {
		return "Outputs were not compared."
	}
	return s.Sentence()
}

// Write writes a report: sentences for people, tables of facts alone for spreadsheets, both as tables in
// Markdown. Tables without rows are left out.
func Write(w io.Writer, format report.Format, sentences []string, facts *report.Table, tables ...*report.Table) error {
	switch format {
	case report.CSVFormat:
		return facts.WriteCSV(w)
	case report.MarkdownFormat:
		tables = append([]*report.Table{facts}, tables...)
	default:
		for _, text := range sentences {
			if err := report.Paragraph(w, text); err != nil {
				return err
			}
		}
	}
	for i, t := range tables {
		if len(t.Rows) == 0 {
			continue
		}
		if i > 0 || format != report.MarkdownFormat {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := t.WriteAs(w, format); err != nil {
			return err
		}
	}
	return nil
}

// AddFacts adds the figures of the outputs to a table of two columns.
func (s *Summary) AddFacts(t *report.Table) {
	if s == nil {
		t.Add("outputs", "not compared")
		return
	}
	t.Add("compared on", s.Data+" ("+s.Backend+")")
	for _, o := range s.Outputs {
		t.Add("largest difference of "+o.Name, fmt.Sprint(float64(o.MaxAbs)))
		t.Add("largest element of "+o.Name, fmt.Sprint(float64(o.Value)))
	}
}

// Table lists the outputs.
func (s *Summary) Table() *report.Table {
	t := &report.Table{Header: []string{"output", "type", "largest element", "largest difference", "RMS difference"},
		Right: []bool{false, false, true, true, true}}
	for _, o := range s.Outputs {
		most, mean := "0, all bits", "0"
		if !o.Bits {
			most, mean = fmt.Sprintf("%.3g", float64(o.MaxAbs)), fmt.Sprintf("%.3g", float64(o.RMS))
		}
		t.Add(o.Name, o.Type, fmt.Sprintf("%.4g", float64(o.Value)), most, mean)
	}
	return t
}
