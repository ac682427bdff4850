package main

import (
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress returns a function that moves a bar on the error stream, or nil where that is
// no terminal.
func (a *app) progress(what string) func(done, total int) {
	f, ok := a.err.(*os.File)
	if !ok || a.global.quiet || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		if total < 2 {
			return
		}
		if bar == nil || bar.GetMax() != total {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(),
				progressbar.OptionSetPredictTime(true))
		}
		bar.Set(done)
	}
}

// spinner returns a function that shows what a long search has found so far on the error stream, or
// nil where that is no terminal.
func (a *app) spinner(what string) func(text string) {
	f, ok := a.err.(*os.File)
	if !ok || a.global.quiet || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
		progressbar.OptionClearOnFinish())
	return func(text string) {
		bar.Describe(text)
		bar.Add(1)
	}
}
