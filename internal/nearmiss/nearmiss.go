// Package nearmiss finds the name that a misspelt one was meant to be, for messages.
package nearmiss

import (
	"fmt"

	"github.com/agext/levenshtein"
)

// longest is the longest name, in bytes, that is taken for a misspelling: comparing two takes time that
// grows with the product of their lengths.
const longest = 1000

// Find returns the name most similar to a misspelt one, or "" if no name is similar enough.
func Find(misspelt string, names []string) string {
	best, bestScore := "", 0.6 // less alike than this is no misspelling
	for _, name := range names {
		if len(name) > longest || len(misspelt) > longest {
			continue
		}
		if score := levenshtein.Match(misspelt, name, nil); score > bestScore {
			best, bestScore = name, score
		}
	}
	return best
}

// Question is Of as the end of a message: `; did you mean "budget"?`, or "" if no name is similar
// enough.
func Question(misspelt string, names []string) string {
	if near := Find(misspelt, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
