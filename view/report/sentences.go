package report

import "io"

// Sentences writes paragraphs of text in a form for people, and an empty line behind them: broken
// into lines as Paragraph does, or as Markdown.
func Sentences(w io.Writer, format Format, list ...string) error {
	for _, text := range list {
		if format != MarkdownFormat {
			if err := Paragraph(w, text); err != nil {
				return err
			}
			continue
		}
		if _, err := io.WriteString(w, escapeMarkdown(text)+"\n"); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}
