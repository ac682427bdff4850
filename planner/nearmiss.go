package planner

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"

	"memopt/recompute"
)

// unknownCluster words the warning about a configuration entry that names no cluster.
func unknownCluster(a *recompute.Analysis, e ConfigEntry) string {
	text := fmt.Sprintf("config entry %q: no cluster of this graph has the id %q at probe %s, so it changes nothing", e, e.Cluster, a.Probe)
	if near := nearest(string(e.Cluster), a.Clusters); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return text
}

// nearest returns the id most like a misspelt one, or "".
func nearest(id string, clusters []recompute.Cluster) string {
	best, bestScore := "", 0.6 // less alike than this is no misspelling
	for i := range clusters {
		c := string(clusters[i].ID)
		score := levenshtein.Match(strings.TrimSpace(id), c, nil)
		if score > bestScore {
			best, bestScore = c, score
		}
	}
	return best
}
