package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"memopt/view/report"
)

// ScreenColumns is how wide the terminal is that a stream goes to, or report.DefaultColumns where
// it goes elsewhere.
func ScreenColumns(stream io.Writer) int {
	if f, ok := stream.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return report.DefaultColumns
}

// TerminalColumns is how wide the terminal is that a stream goes to; 0 where it goes elsewhere.
func TerminalColumns(stream io.Writer) int {
	if f, ok := stream.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	return ScreenColumns(stream)
}

// fitScreen makes later output fit the screen, or be whole if the user wants that.
func (a *App) fitScreen() {
	if a.Global.Wide || a.Global.Verbose {
		a.Columns = 0
	}
	a.Out = &report.Screen{Writer: a.Out, Columns: a.Columns}
}
