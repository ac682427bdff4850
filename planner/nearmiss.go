package planner

import (
	"fmt"
	"strings"

	"memopt/internal/nearmiss"
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
	return text + nearmiss.Question(strings.TrimSpace(string(e.Cluster)), ids)
}

// Nearest is nearmiss.Find.
func Nearest(misspelt string, names []string) string { return nearmiss.Find(misspelt, names) }
