package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// sweepGrid is a small grid, of which half of the points do not fit.
const sweepGrid = `{"verb": "plan", "models": "example:cnn", "dims": {"batch": [4, 8]},
	"flags": {"budget": ["60%", "1%"], "time-limit": 0}}`

// writeGrid writes grid.json.
func writeGrid(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile("grid.json", []byte(text), 0o666))
}
