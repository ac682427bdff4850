//go:build unix

package sweep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/answers/sweep"
)

// fake is a program in place of memopt: a script, whose arguments are a verb's.
func fake(t *testing.T, script string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fake.sh")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o600))
	return []string{"/bin/sh", path}
}

// runner is a runner of a grid of 30 points over a folder.
func runner(t *testing.T, folder string, command []string) *sweep.Runner {
	t.Helper()
	g, err := sweep.Parse([]byte(`{"verb": "plan", "models": ["a", "b", "c"], "dims": {"x": [0,1,2,3,4,5,6,7,8,9]}}`), "g",
		anyVerb{})
	require.NoError(t, err)
	return &sweep.Runner{Grid: g, Folder: &sweep.Folder{Path: folder}, Hasher: &sweep.Hasher{Verbs: anyVerb{}},
		Command: command, Env: os.Environ()}
}

// TestEachPointOnce: sweeps that run at the same time over one folder run each point once, all wait
// for the last one, and gather the same.
func TestEachPointOnce(t *testing.T) {
	folder, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	t.Setenv("RAN", ran)
	command := fake(t, `echo "$@" >>"$RAN"; sleep 0.01; echo '{"a": [1], "b": {"c": [2], "d": 3}}'`)
	var all sync.WaitGroup
	for range 3 {
		r := runner(t, folder, command)
		all.Go(func() {
			if err := r.Local(t.Context(), 3); err != nil {
				t.Error(err)
			}
			s, err := r.Gather()
			if err != nil {
				t.Error(err)
			} else if s.Sentence() != "30 points: 30 done" {
				t.Error(s.Sentence())
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(ran)
	require.NoError(t, err)
	require.Equal(t, 30, strings.Count(string(text), "\n"), "%s", text)
	lines, err := os.ReadFile(filepath.Join(folder, "results.jsonl"))
	require.NoError(t, err)
	require.Equal(t, 30, strings.Count(string(lines), `"report":{"b":{"d":3}}}`+"\n"))
}

// TestOutcomes: exit codes become outcomes, and what has no result does not end the sweep.
func TestOutcomes(t *testing.T) {
	command := fake(t, `
		for a in "$@"; do case $a in
			--dim=x=1) echo 'memopt: first
memopt: too large' >&2; exit 3;;
			--dim=x=2) exit 4;; --dim=x=3) exit 2;; --dim=x=4) exit 143;; --dim=x=5) exit 9;;
			--dim=x=6) kill -9 $$;; --dim=x=7) echo 'no JSON'; exit 0;;
		esac; done; echo '{}'`)
	r := runner(t, t.TempDir(), command)
	require.NoError(t, r.Local(t.Context(), 2))
	s, err := r.Gather()
	require.NoError(t, err)
	require.Equal(t, "30 points: 9 done, 3 unfit, 3 negative, 9 failed, 6 unfinished", s.Sentence())
	require.Equal(t, 3, s.FirstFailure().Index)
	require.Equal(t, "too large", s.Rows[1].Result.Error)
	require.Equal(t, sweep.Killed, s.Rows[6].Result.ExitCode)
	require.Contains(t, s.Rows[7].Result.Error, "is not JSON")

	left, err := r.Missing()
	require.NoError(t, err)
	require.Len(t, left, 6)
	r.Retry = true
	left, err = r.Missing()
	require.NoError(t, err)
	require.Len(t, left, 6, "what this runner has tried is not tried again")
	again := runner(t, r.Folder.Path, fake(t, "echo '{}'"))
	again.Retry = true
	require.NoError(t, again.Local(t.Context(), 2))
	s, err = again.Gather()
	require.NoError(t, err)
	require.Equal(t, "30 points: 24 done, 3 unfit, 3 negative", s.Sentence())
}

// TestLocalEnds: when the context ends, processes are asked to end, and nothing half is kept.
func TestLocalEnds(t *testing.T) {
	r := runner(t, t.TempDir(), fake(t, `trap 'exit 143' TERM; while :; do sleep 0.01; done`))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := r.Local(ctx, 2)
	require.True(t, errors.Is(err, context.DeadlineExceeded), err)
	s, err := r.Gather()
	require.NoError(t, err)
	require.Equal(t, "30 points: 30 unfinished", s.Sentence())
}

// TestHostileResults: a file that is no result of its point is named once, the point counts as not run, and the
// next sweep runs it alone.
func TestHostileResults(t *testing.T) {
	r := runner(t, t.TempDir(), fake(t, "echo '{}'"))
	require.NoError(t, r.Local(t.Context(), 2))
	files, err := filepath.Glob(filepath.Join(r.Folder.Path, "points", "*"))
	require.NoError(t, err)
	first, err := os.ReadFile(files[0])
	require.NoError(t, err)
	whole, err := os.ReadFile(files[1])
	require.NoError(t, err)
	for _, text := range []string{"", "{", "null", `{"schema":"memopt.point/v1"}`, string(whole)} {
		require.NoError(t, os.WriteFile(files[0], []byte(text), 0o600))
		var said []string
		damaged := runner(t, r.Folder.Path, nil)
		damaged.Warn = func(text string) { said = append(said, text) }
		left, err := damaged.Missing()
		require.NoError(t, err)
		require.Len(t, left, 1)
		s, err := damaged.Gather()
		require.NoError(t, err)
		require.Equal(t, "30 points: 29 done, 1 unfinished", s.Sentence())
		require.Len(t, said, 1)
		require.Contains(t, said[0], files[0]+": is not the result of the point")

		require.NoError(t, runner(t, r.Folder.Path, fake(t, "echo '{}'")).Local(t.Context(), 2))
		mended, err := os.ReadFile(files[0])
		require.NoError(t, err)
		id := func(text []byte) string { before, _, _ := strings.Cut(string(text), `"elapsed_ms"`); return before }
		require.Equal(t, id(first), id(mended))
	}
}

// TestFoldersAreNotLinks: a folder of a sweep that leads elsewhere is refused, and no file is written there.
func TestFoldersAreNotLinks(t *testing.T) {
	for _, name := range []string{"points", "locks", "logs"} {
		folder, elsewhere := t.TempDir(), t.TempDir()
		require.NoError(t, os.Symlink(elsewhere, filepath.Join(folder, name)))
		err := runner(t, folder, fake(t, "echo '{}'; echo x >&2")).Local(t.Context(), 2)
		require.ErrorContains(t, err, filepath.Join(folder, name)+": it is a symbolic link")
		list, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		require.Empty(t, list)
	}
}
