package graph

import "strings"

// MatchGlob reports whether a name matches a glob: * stands for any characters, also . and /;
// everything else for itself. A glob that is the name always matches it.
func MatchGlob(glob, name string) bool {
	if glob == name {
		return true
	}
	parts := strings.Split(glob, "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == "" && len(parts) == 1
	}
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
