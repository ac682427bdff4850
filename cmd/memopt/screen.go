package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"memopt/view/report"
)

// screenColumns is how wide the terminal is that a stream goes to, or report.DefaultColumns where
// it goes elsewhere.
func screenColumns(stream io.Writer) int {
	if f, ok := stream.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return report.DefaultColumns
}

// terminalColumns is how wide the terminal is that a stream goes to; 0 where it goes elsewhere.
func terminalColumns(stream io.Writer) int {
	if f, ok := stream.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	return screenColumns(stream)
}

// fitScreen makes later output fit the screen, or be whole if the user wants that.
func (a *app) fitScreen() {
	if a.global.wide || a.global.verbose {
		a.columns = 0
	}
	a.out = &report.Screen{Writer: a.out, Columns: a.columns}
}
