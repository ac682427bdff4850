package configs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner"
)

// TestParseHistogram: pairs of size and weight are read, and files of other forms are errors that name the place.
func TestParseHistogram(t *testing.T) {
	h, err := ParseHistogram([]byte(`{"tokens": [[512, 3], [128, 1.0e0]], "batch": [[1, 1]]}`), "tokens")
	require.NoError(t, err)
	require.Equal(t, &planner.Histogram{Symbol: "tokens", Lengths: []planner.Length{{Size: 128, Share: 0.25},
		{Size: 512, Share: 0.75}}}, h)
	for text, want := range map[string]string{
		``:                         "the file is empty",
		`[1]`:                      `wanted JSON such as {"tokens": [[size, weight], ...]}`,
		`{"tokens": 3}`:            "byte 12: got the JSON number there",
		`{"tokens": [["4", 1]]}`:   "got the JSON string there",
		`{}`:                       "it has those of: no symbol",
		`{"tokens": [[1,2]]} {}`:   "more than one value",
		`{"seq": [], "batch": []}`: "has no sizes of tokens; it has those of: batch, seq",
		`{"tokens": []}`:           "the weights of tokens add up to 0",
		`{"tokens": [[1,1],[2]]}`:  "tokens[1] is [2]: wanted a pair, a whole size and its weight",
		`{"tokens": [[1.5,1]]}`:    "tokens[0] is [1.5, 1]: wanted a pair",
		`{"tokens": [[1e300,1]]}`:  "tokens[0] is [1e+300, 1]: wanted a pair",
		`{"tokens": [[-4,1]]}`:     "tokens=-4: wanted sizes of 0 or more",
		`{"tokens": [[4,-1]]}`:     "the weight of tokens=4 is -1",
	} {
		_, err := ParseHistogram([]byte(text), "tokens")
		require.ErrorContains(t, err, want, text)
	}
}
