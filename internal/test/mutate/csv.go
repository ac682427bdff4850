package mutate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CSV makes a mutant of a table of comma-separated values.
func CSV(data, genome []byte) ([]byte, []string) {
	var rows [][]string
	for line := range strings.SplitSeq(string(data), "\n") {
		rows = append(rows, strings.Split(line, ","))
	}
	var did []string
	for _, rng := range genes(genome) {
		r := rng.IntN(len(rows))
		c := rng.IntN(len(rows[r]))
		switch rng.IntN(8) {
		case 0:
			rows = slices.Insert(rows, r, slices.Clone(rows[r]))
			did = append(did, fmt.Sprintf("row %d doubled", r))
		case 1:
			if len(rows) > 1 {
				rows = slices.Delete(rows, r, r+1)
			}
			did = append(did, fmt.Sprintf("row %d left out", r))
		case 2:
			rows[r] = slices.Insert(rows[r], c, pick(rng, texts))
			did = append(did, fmt.Sprintf("row %d has a cell more", r))
		case 3:
			rows[r][c] = word(rng, rows[r][c])
			did = append(did, fmt.Sprintf("row %d, cell %d: %.60q", r, c, rows[r][c]))
		default:
			n, _ := strconv.ParseInt(rows[r][c], 10, 64)
			rows[r][c] = strconv.FormatInt(whole(rng, n), 10)
			did = append(did, fmt.Sprintf("row %d, cell %d: %s", r, c, rows[r][c]))
		}
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, strings.Join(row, ","))
	}
	return []byte(strings.Join(lines, "\n")), did
}
