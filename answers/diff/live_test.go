package diff_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/diff"
)

// program is a compiled step of a width, whose tanh keeps as many values for the backward half as told.
func program(t *testing.T, width string, kept int) *diff.Subject {
	text := `HloModule m, is_scheduled=true
ENTRY e {
  w = f32[@] parameter(0), metadata={op_name="w"}
  a = f32[@] dot(w, w), metadata={op_name="jit(f)/jvp()/dot" source_file="/m.py" source_line=1}
`
	operands := "a"
	for i := range kept {
		name := string(rune('k' + i))
		text += "  " + name +
			` = f32[@] sort(a), metadata={op_name="jit(f)/jvp()/sort" source_file="/m.py" source_line=2}` + "\n"
		operands += ", " + name
	}
	text += `  b = f32[@] dot(` + operands + `), metadata={op_name="jit(f)/transpose(jvp())/dot"}
  ROOT r = f32[] reduce(b)
}`
	m, err := memopt.Read(strings.NewReader(strings.ReplaceAll(text, "@", width)), "m.hlo", memopt.Options{})
	require.NoError(t, err)
	p, err := m.Plan(t.Context(), memopt.Level(0), memopt.PlanOptions{})
	require.NoError(t, err)
	return ofPlan(t, p, "m.hlo")
}

// TestLive: the memory at the peaks of two programs is compared by operator and line, and the largest change is named
// first.
func TestLive(t *testing.T) {
	r := compare(t, program(t, "256", 1), program(t, "256", 3))
	require.Equal(t, "+2.00 KiB at jvp()/sort (m.py:2)", r.Blame())
	require.Equal(t, 1, r.Count(diff.LiveChange))
	r = compare(t, program(t, "256", 1), program(t, "512", 3))
	require.Equal(t, "+5.00 KiB at jvp()/sort (m.py:2), +1.00 KiB at jvp()/dot (m.py:1), "+
		"+1.00 KiB at transpose(jvp())/dot", r.Blame())
	require.Equal(t, 4, r.Count(diff.LiveChange), "the argument, too")
	require.Empty(t, compare(t, program(t, "256", 3), program(t, "256", 1)).Blame(), "the peak falls")
	r = compare(t, program(t, "256", 1), program(t, "256", 1))
	require.True(t, r.Same())
}
