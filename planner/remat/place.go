package remat

import "bytes"

// window keeps the last bytes that were read of a file, so that errors can name lines.
type window struct {
	text  []byte
	from  int64 // of the file, where text begins
	lines int   // before that
}

// windowKept is how many bytes of the past are kept at most before they are forgotten at once.
const windowKept = 1 << 16

// Write takes an instance that Read has returned.
func (w *window) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	return len(p), nil
}

// forget drops the bytes before an offset when they are many.
func (w *window) forget(before int64) {
	if n := before - w.from; n > windowKept {
		w.lines += bytes.Count(w.text[:n], []byte("\n"))
		w.text = w.text[:copy(w.text, w.text[n:])]
		w.from = before
	}
}

// line returns the line, counted from 1, of the first byte from an offset on that begins a value.
func (w *window) line(offset int64) int {
	rest := w.text[offset-w.from:]
	skipped := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,:"))
	return w.lines + bytes.Count(w.text[:int(offset-w.from)+skipped], []byte("\n")) + 1
}
