package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"memopt/cmd/memopt/internal/cli"
)

// terminal is a pseudo-terminal of some columns: what is written to slave comes out of master.
func terminal(t *testing.T, columns int) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { slave.Close() })
	require.NoError(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: 50, Col: uint16(columns)}))
	return master, slave
}

// onTerminal runs a command line whose standard output is a terminal, and returns what it shows.
func onTerminal(t *testing.T, columns int, line string) string {
	t.Helper()
	master, slave := terminal(t, columns)
	shown := make(chan string)
	go func() {
		var b bytes.Buffer
		io.Copy(&b, master) // ends with an error once the slave is closed
		shown <- b.String()
	}()
	var errs bytes.Buffer
	code := runUntil(t.Context(), &cli.Keeper{}, strings.Fields(line), cli.Stdio{In: nil, Out: slave, Err: &errs}, nil)
	require.Zero(t, code, errs.String())
	slave.Close()
	return <-shown
}

// TestChart: plan ends with a chart on a terminal that is wide enough, and nowhere else.
func TestChart(t *testing.T) {
	exitFolder(t)
	const axis, line = "0 B └─", "plan example:mlp --level 1 -q"
	for _, columns := range []int{60, 90, 200} {
		out := onTerminal(t, columns, line)
		require.Contains(t, out, axis)
		require.Contains(t, out, "░ the rest")
		require.Contains(t, onTerminal(t, columns, line+" -w"), axis)
		for _, other := range []string{line + " --no-chart", line + " -O json", line + " -O markdown", line + " -O csv",
			"plan forward.onnx -q"} {
			require.NotContains(t, onTerminal(t, columns, other), axis, other)
		}
	}
	require.NotContains(t, onTerminal(t, 59, line), axis)
	require.NotContains(t, inProcess(t.Context(), nil, line).out, axis)
}
