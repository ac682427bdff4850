package report

import "io"

// Step identifies the training step behind the figures, in the JSON of each verb.
type Step struct {
	Text      string  `json:"text"`                // in a phrase
	Made      bool    `json:"made"`                // from a forward model; else the step is the file's own
	Optimizer *string `json:"optimizer"`           // added by memopt; nil without an optimizer
	Micros    int     `json:"accumulate"`          // steps whose gradients are added up for an update
	Precision string  `json:"precision,omitempty"` // of a step that computes in 16 bits beside float32, which is inexact
	// Home is the file that its states lie in; nil where they lie on the device. Reports of verbs that know it have it.
	Home *Home `json:"-"`
}

// StepLine writes the step as the first line of a report for people. A nil step writes no line: the report
// is of no training step.
func StepLine(w io.Writer, format Format, s *Step) error {
	if s == nil {
		return nil
	}
	switch text := "step: " + s.Text; format {
	case TableFormat:
		return Paragraph(w, text)
	case MarkdownFormat:
		_, err := io.WriteString(w, escapeMarkdown(text)+"\n\n")
		return err
	}
	return nil
}
