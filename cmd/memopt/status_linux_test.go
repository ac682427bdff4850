package main

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// kept is the text that stays on a terminal: a return with the sequence behind it empties the line.
func kept(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\r\n") {
		if at := strings.LastIndex(line, "\r\x1b[K"); at >= 0 {
			line = line[at+len("\r\x1b[K"):]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// drawnLine is a status line as a terminal gets it.
var drawnLine = regexp.MustCompile(`\r[0-9.]+ s( of [0-9]+ s)?: \S[^\r]*\x1b\[K`)

// statusLines have a command line for each verb that can work for long; each waits for its input.
var statusLines = []string{"plan -", "inspect -", "fit - --gpu 1GiB --vary batch", "estimate - --gpu 1GiB", "explain -",
	"apply - -o out", "verify -", "run -", "grad - -o out", "report - -o out", "solve - -o out", "diff - example:mlp",
	"train - --data example:text", "optimize - -o out", "pack - -o out", "trace - -o out", "quantize - -o out",
	"check - instance.json"}

// quickVerbs answer at once, or wait for programs that they start and for no input of their own.
var quickVerbs = []string{"config", "devices", "doctor", "examples", "export", "man", "ops", "sweep", "version"}

// endMark is written to a terminal behind all that a command prints. A terminal that is closed may lose its last line.
const endMark = "\x00"

// TestStatusOfVerbs: on a terminal every verb that works for long shows a line, and removes it
// before it prints anything else; where the output is redirected, there is none.
func TestStatusOfVerbs(t *testing.T) {
	for _, c := range command((&cli.App{})).Commands() {
		listed := slices.ContainsFunc(statusLines, func(l string) bool { return strings.Fields(l)[0] == c.Name() })
		require.True(t, c.Hidden || !c.Runnable() || listed != slices.Contains(quickVerbs, c.Name()), c.Name())
	}
	defer func(whole time.Duration) { cli.StatusAfter = whole }(cli.StatusAfter)
	cli.StatusAfter = time.Millisecond
	t.Chdir(t.TempDir())
	for _, line := range statusLines {
		t.Run(line, func(t *testing.T) {
			master, slave := terminal(t, 80)
			in, feed := io.Pipe()
			code := make(chan int, 1)
			go func() {
				code <- runUntil(t.Context(), &cli.Keeper{}, strings.Fields(line),
					cli.Stdio{In: in, Out: io.Discard, Err: slave}, nil)
				io.WriteString(slave, endMark)
			}()
			var text bytes.Buffer
			part := make([]byte, 4096)
			for {
				n, err := master.Read(part)
				require.NoError(t, err)
				if text.Write(part[:n]); bytes.HasSuffix(text.Bytes(), []byte(endMark)) {
					text.Truncate(text.Len() - len(endMark))
					break
				}
				if drawnLine.Match(text.Bytes()) {
					feed.Close()
				}
			}
			slave.Close()
			require.NotZero(t, <-code, "its input is empty")
			require.Equal(t, 1, strings.Count(kept(text.String()), "memopt:"), "%q", text.String())
			require.NotRegexp(t, `[0-9] s( of [0-9]+ s)?: `, kept(text.String()))

			var errs lockedBuffer
			in, feed = io.Pipe()
			time.AfterFunc(5*cli.StatusAfter, func() { feed.Close() })
			runUntil(t.Context(), &cli.Keeper{}, strings.Fields(line), cli.Stdio{In: in, Out: io.Discard, Err: &errs},
				nil)
			require.NotContains(t, errs.take(), "\r")
		})
	}
}
