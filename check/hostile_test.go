package check_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/check"
	"memopt/check/streams"
)

// TestHostile: whatever files hold, a check ends with a report or an error.
func TestHostile(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	parts := []string{"null", "[]", "{}", "-1", "1e308", "0", `"n0"`, "[null]", `{"id":null}`, "true", "1e-300", `"us"`}
	bend := func(text string) string {
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(text))
			for at > 0 && rng.IntN(20) > 0 && !strings.ContainsRune(":[", rune(text[at-1])) {
				at--
			}
			end := at
			for end < len(text) && !strings.ContainsRune(",:]}", rune(text[end])) {
				end++
			}
			text = text[:at] + parts[rng.IntN(len(parts))] + text[end:]
		}
		return text
	}
	valid, reports, errs := plans(t, 13, 20), 0, 0
	for range 6000 {
		p := valid[rng.IntN(len(valid))]
		answer, instance := text(p.answer), text(p.instance)
		if rng.IntN(2) == 0 {
			answer = bend(answer)
		} else {
			instance = bend(instance)
		}
		if _, err := check.Answer(strings.NewReader(answer), strings.NewReader(instance)); err != nil {
			errs++
		} else {
			reports++
		}
		if p.answer["link"] != nil {
			_, _, _ = streams.Trace(strings.NewReader(bend(text(traced(p)))))
		}
	}
	require.Greater(t, reports, 200)
	require.Greater(t, errs, 200)
}
