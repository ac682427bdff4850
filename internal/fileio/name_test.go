//go:build unix

package fileio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// TestNames: every value has a file of its own, in its folder.
func TestNames(t *testing.T) {
	for value, want := range map[string]string{
		"loss": "loss.pb", "a/b": "a%2Fb.pb", "a%2Fb": "a%252Fb.pb", "a%2fb": "a%252fb.pb", "100%": "100%.pb",
		"%zz": "%zz.pb", "/": "%2F.pb", "%/": "%%2F.pb", "": ".pb",
		"..": "...pb", "../../etc/passwd": "..%2F..%2Fetc%2Fpasswd.pb", "a\x00b": "a%00b.pb", "ä": "ä.pb",
		strings.Repeat("x", 252): strings.Repeat("x", 252) + ".pb",
	} {
		require.Equal(t, want, Name(value, ".pb"))
	}
	for n := range 4 {
		name := Name(strings.Repeat("x", n)+strings.Repeat("重", 300), ".pb")
		require.True(t, utf8.ValidString(name), name)
		require.Greater(t, len(name), MaxName-3)
	}
	dir := t.TempDir()
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOfN(rapid.SampledFrom([]rune("ab/%2Ff.\x00ä~")), 0, -1, -1).Draw(t, "value")
		if rapid.Bool().Draw(t, "long") {
			value = strings.Repeat("long ", 60) + value
		}
		name := Name(value, ".pb")
		require.LessOrEqual(t, len(name), MaxName)
		if other, known := seen[name]; known {
			require.Equal(t, other, value)
		}
		seen[name] = value
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		require.Equal(t, dir, filepath.Dir(filepath.Join(dir, name)))
		for _, bytes := range []string{"/\x00", "/\\\x00", ""} {
			escaped := Escape(value, bytes)
			require.False(t, strings.ContainsAny(escaped, bytes))
			require.Equal(t, value, Unescape(escaped))
		}
	})
}
