package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/snapshot"
	sim "memopt/sim/snapshot"
	"memopt/view/report"
)

// TestExplain: each cause has its change, and all formats have the holders.
func TestExplain(t *testing.T) {
	for name, want := range map[string]string{
		"fragments.pickle":  "it is served, and the events up to it take 72.00 MiB at most.",
		"live.pickle":       "The cause is live bytes: 2.16 MiB more than what was free were needed",
		"ragged.pickle":     "Memory did not run out. The most was in use at event",
		"expandable.pickle": "were recorded, and both are equal at every event.",
	} {
		data, err := os.ReadFile(filepath.Join("../../sim/snapshot/testdata", name))
		require.NoError(t, err)
		s, err := sim.Read(data)
		require.NoError(t, err)
		r, err := snapshot.Explain(t.Context(), s)
		require.NoError(t, err)
		for _, format := range []report.Format{report.TableFormat, report.JSONFormat, report.CSVFormat,
			report.MarkdownFormat} {
			var b strings.Builder
			require.NoError(t, snapshot.Report(&b, format, r, snapshot.View{Path: name, Top: 2}))
			text := strings.Join(strings.Fields(b.String()), " ")
			if format != report.CSVFormat {
				require.Contains(t, text, want, "%s %v", name, format)
			}
			require.Contains(t, text, "snapshot.py", "%s %v", name, format)
		}
		require.Equal(t, r.Ran, r.Cause != snapshot.NoCause)
		require.Equal(t, s.Conf.Expandable, r.Expandable == nil)

		s.Events = nil
		r, err = snapshot.Explain(t.Context(), s)
		require.NoError(t, err)
		var b strings.Builder
		require.NoError(t, snapshot.Report(&b, report.TableFormat, r, snapshot.View{}))
		require.Contains(t, b.String(), "The snapshot has no events")
	}
}

// TestShortRecordings: a recording that kept its last event alone says that the most was in use before it, and a replay
// that is off says by how much.
func TestShortRecordings(t *testing.T) {
	data, err := os.ReadFile("../../sim/snapshot/testdata/ragged.pickle")
	require.NoError(t, err)
	s, err := sim.Read(data)
	require.NoError(t, err)
	last := len(s.Events) - 1
	for last > 0 && s.Events[last].Action != sim.FreeCompleted {
		last--
	}
	s.Events = s.Events[last : last+1]
	r, err := snapshot.Explain(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, -1, r.Event)
	r.Replay.Off = .012
	var b strings.Builder
	require.NoError(t, snapshot.Report(&b, report.JSONFormat, r, snapshot.View{}))
	require.Contains(t, b.String(), "was in use before the events that the recording kept (1; max_entries of "+
		"torch.cuda.memory._record_memory_history).")
	require.Contains(t, b.String(), "and at no event do both differ by more than 1.2 %.")
	require.Contains(t, b.String(), `"event": null`)
}
