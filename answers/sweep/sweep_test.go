package sweep_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/answers/sweep"
	_ "memopt/internal/test/rapidflags"
)

// anyVerb takes all flags but "bad".
type anyVerb struct{}

func (anyVerb) Flag(_, name string) (sweep.Flag, error) {
	if name == "bad" {
		return sweep.Flag{}, errors.New("there is no such flag")
	}
	return sweep.Flag{Many: name == "many", Reads: name == "file"}, nil
}
func (anyVerb) Check(string, []string) error    { return nil }
func (anyVerb) Inputs(string) ([]string, error) { return nil, nil }

// TestGridIsAProduct: a grid has each combination once, in an order that depends on the file only.
func TestGridIsAProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 5).Draw(t, "sizes")
		want := 1
		var flags []string
		for i, n := range sizes {
			want *= n
			var values []string
			for k := range n {
				values = append(values, strconv.Itoa(k))
			}
			flags = append(flags, fmt.Sprintf("%q: [%s]", "f"+strconv.Itoa(i), strings.Join(values, ",")))
		}
		text := `{"verb": "plan", "models": ["a", "b"], "flags": {` + strings.Join(flags, ",") + "}}"
		g, err := sweep.Parse([]byte(text), "g", anyVerb{})
		require.NoError(t, err)
		require.Len(t, g.Points, 2*want)
		seen := map[string]bool{}
		for i, p := range g.Points {
			require.Equal(t, i, p.Index)
			line := strings.Join(p.Args, " ")
			require.False(t, seen[line], line)
			seen[line] = true
		}
		again, err := sweep.Parse([]byte(text), "g", anyVerb{})
		require.NoError(t, err)
		require.Equal(t, g.Points, again.Points)
	})
}

// TestRanges: ranges name exactly the numbers that they are made of.
func TestRanges(t *testing.T) {
	require.Equal(t, "0-3,7,9-10", sweep.Ranges([]int{0, 1, 2, 3, 7, 9, 10}))
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfDistinct(rapid.IntRange(0, 60), rapid.ID[int]).Draw(t, "list")
		slices.Sort(list)
		var got []int
		for part := range strings.SplitSeq(sweep.Ranges(list), ",") {
			low, high, _ := strings.Cut(part, "-")
			if low == "" {
				continue
			}
			if high == "" {
				high = low
			}
			first, err := strconv.Atoi(low)
			require.NoError(t, err)
			last, err := strconv.Atoi(high)
			require.NoError(t, err)
			for n := first; n <= last; n++ {
				got = append(got, n)
			}
		}
		require.Equal(t, len(list), len(got))
		for i := range list {
			require.Equal(t, list[i], got[i])
		}
	})
}

// TestGridFaults: errors name the key and what is wrong.
func TestGridFaults(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("0,", 200), ",")
	for text, want := range map[string]string{
		``:                                   "g: is not JSON",
		`[]`:                                 "g: wanted a JSON object",
		`{}`:                                 "g: verb: is missing",
		`{"verb":"plan"}`:                    "g: models: is missing",
		`{"verb":"run"}`:                     `g: verb: "run": wanted one of`,
		`{"schema":"x"}`:                     "g: schema:",
		`{"verbs":"plan"}`:                   `g: verbs: there is no such key; did you mean "verb"?`,
		`{"verb":"plan","verb"`:              "g: ",
		`{"verb":"plan","models":"a"} {}`:    "data after the grid",
		`{"verb":"plan","models":[]}`:        "g: models: the list is empty",
		`{"verb":"plan","models":["a","a"]}`: "g: models: has \"a\" twice",
		`{"verb":"plan","models":[null]}`:    "g: models: null",
		`{"verb":"plan","models":[{}]}`:      "g: models: {}: wanted",
		`{"verb":"plan","models":"a","dims":{"b":1,"b":2}}`:                 "g: dims.b: stands in the file twice",
		`{"verb":"plan","models":"a","dims":{"b":[[1]]}}`:                   "g: dims.b: [1]: wanted one number",
		`{"verb":"plan","models":"a","dims":3}`:                             "g: dims: wanted a JSON object",
		`{"verb":"plan","models":"a","flags":{"bad":1}}`:                    "g: flags.bad: there is no such flag",
		`{"verb":"plan","models":"a","flags":{"f":[[1,2]]}}`:                "given once only",
		`{"verb":"plan","models":"a","flags":{"f":[[]]}}`:                   "empty list",
		`{"verb":"plan","models":"a","flags":{"f":[1,"1"]}}`:                "twice",
		`{"verb":"plan","models":"a","flags":{"many":[["a","b"],"a"]}}`:     "",
		`{"verb":"plan","models":"a","flags":{"f":[null,true,1.5,"text"]}}`: "",
		`{"verb":"plan","models":"a","flags":{"f":[` + long + `]}}`:         "twice",
	} {
		_, err := sweep.Parse([]byte(text), "g", anyVerb{})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
	var axes []string
	for i := range 14 {
		axes = append(axes, fmt.Sprintf(`"f%d":[1,2]`, i))
	}
	_, err := sweep.Parse([]byte(`{"verb":"plan","models":"a","flags":{`+strings.Join(axes, ",")+`}}`), "g", anyVerb{})
	require.ErrorContains(t, err, "more than 10000 points")
}

// TestIdentity: the identity follows arguments and contents, not the place in the grid or the order of
// keys.
func TestIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	id := func(text string, i int) string {
		g, err := sweep.Parse([]byte(strings.ReplaceAll(text, "FILE", file)), "g", anyVerb{})
		require.NoError(t, err)
		id, err := (&sweep.Hasher{Verbs: anyVerb{}}).ID(g.Points[i])
		require.NoError(t, err)
		return id
	}
	const grid = `{"verb":"plan","models":"a","flags":{"x":1,"file":"FILE"}}`
	first := id(grid, 0)
	require.Equal(t, first, id(`{"models":"a","flags":{"file":"FILE","x":[0,1]},"verb":"plan"}`, 1))
	require.NotEqual(t, first, id(`{"verb":"verify","models":"a","flags":{"x":1,"file":"FILE"}}`, 0))
	require.NoError(t, os.WriteFile(file, []byte("a"), 0o666))
	second := id(grid, 0)
	require.NotEqual(t, first, second)
	require.NoError(t, os.WriteFile(file, []byte("b"), 0o666))
	require.NotEqual(t, second, id(grid, 0))
	require.NoError(t, os.WriteFile(file, []byte("a"), 0o666))
	require.Equal(t, second, id(grid, 0))
}
