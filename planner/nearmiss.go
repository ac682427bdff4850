package planner

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"

	"memopt/recompute"
)

// unknownCluster is the warning about a configuration entry that names no cluster.
func unknownCluster(a *recompute.Analysis, e ConfigEntry) string {
	text := fmt.Sprintf("config entry %q: no cluster of this graph has the id %q at probe %s, so "+
		"it has no effect",
		e, e.Cluster, a.Probe)
	ids := make([]string, len(a.Clusters))
	for i := range a.Clusters {
		ids[i] = string(a.Clusters[i].ID)
	}
	if near := Nearest(strings.TrimSpace(string(e.Cluster)), ids); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return text
}

// longestName is the longest name, in bytes, that is taken for a misspelling.
const longestName = 1000

// Nearest returns the name most similar to a misspelt one, or "" if none is similar enough. It is
// for messages.
func Nearest(misspelt string, names []string) string {
	best, bestScore := "", 0.6 // less alike than this is no misspelling
	for _, name := range names {
		if len(name) > longestName || len(misspelt) > longestName { // takes quadratic time
			continue
		}
		if score := levenshtein.Match(misspelt, name, nil); score > bestScore {
			best, bestScore = name, score
		}
	}
	return best
}
