package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/instancecmd"
)

// TestInstancesOfHelp: what help shows of the formats of solve and pack is read, and has an answer.
func TestInstancesOfHelp(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ verb, instance, file, want string }{
		{"solve", instancecmd.SolveInstance, "net.json", "\"steps\":[{\"compute\":0}"},
		{"pack", instancecmd.PackInstance, "buffers.csv", "id,lower,upper,size,offset\na,0,4,8,"},
	} {
		help := inProcess(t.Context(), nil, "help "+c.verb)
		require.Contains(t, help.out, c.instance)
		text := strings.ReplaceAll(strings.TrimPrefix(c.instance, "  "), "\n  ", "\n") + "\n"
		require.NoError(t, os.WriteFile(c.file, []byte(text), 0o600))
		e := inProcess(t.Context(), nil, c.verb+" "+c.file+" -o -")
		require.Zero(t, e.code, e.errors)
		require.Contains(t, e.out, c.want)
	}
}
